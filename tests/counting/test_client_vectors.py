"""Coins, answers and reports by the file that binds Python and the browser."""

import copy
import json

import pytest

from tests.counting import vectors

CASES = json.loads(vectors.FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_python_reproduces_the_file(number: int) -> None:
    assert vectors.worked(CASES[number]) == CASES[number]


def test_the_file_holds_every_method_and_every_turn() -> None:
    """Cases with dropped words, of likely and of unlikely masks, of movements beyond the k-th."""
    assert {case["survey"]["method"] for case in CASES} == {
        "glance",
        "harmony",
        "harmony-signed",
        "rappor",
        "masks",
        "tree",
    }
    dropped = [c for c in CASES if int(c["words"][0]) >= 2**64 - 2**64 % int(c["law"]["total"])]
    assert len(dropped) >= 10
    for kind in (0, 1):
        assert any(
            (sum(c["flips"]) <= c["law"]["threshold"]) == kind
            for c in CASES
            if c["survey"]["method"] == "masks"
        )
    trees = [c for c in CASES if c["survey"]["method"] == "tree"]
    assert any(c["state"]["moves"] == c["law"]["slots"] for c in trees)
    assert any(0 < c["state"]["moves"] < c["law"]["slots"] for c in trees)


def test_another_word_or_bit_is_noticed() -> None:
    """What the comparison is worth: a changed input no longer gives the file's outcome."""
    case = next(c for c in CASES if c["survey"]["name"] == "m0")
    for change in ("words", "bits"):
        other = copy.deepcopy(case)
        if change == "words":
            # The other side of the law's first step: no flip becomes at least one.
            other["words"][0] = str(int(case["law"]["near_weight"]) * (sum(case["flips"]) == 0))
        else:
            other["bits"][0][1] ^= 1
        assert vectors.worked(other)["reports"] != case["reports"]
