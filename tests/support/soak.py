"""`make soak` has hours; `make test` has minutes, and tries some of the same."""

import os

SOAK = os.environ.get("SUDARE_SOAK") == "1"


def times(few: int, many: int) -> int:
    """How often to try something by chance: few times, or many where there is time."""
    return many if SOAK else few
