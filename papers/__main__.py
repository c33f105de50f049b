"""`python -m papers`: the papers' figures, measured again."""

from papers.command import main

if __name__ == "__main__":
    main()
