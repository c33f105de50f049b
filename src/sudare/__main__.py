"""`python -m sudare` is the `sudare` command."""

from sudare.cli import main

main()
