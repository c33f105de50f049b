"""Notation."""

from papers import Verdict
from papers.glance_table_2 import ROWS
from sudare import counting
from sudare.counting._simulation import Simulation
from tests.papers.smoke import check_figure, verdict


def test_it_holds_and_could_fail() -> None:
    check_figure("glance-table-2")
    assert verdict("glance-table-2") is Verdict.HOLDS
    assert verdict("glance-table-2", lambda p, c, x, v: 0.0) is Verdict.FAILS


def test_names_exist() -> None:
    text = " ".join(row[2] for row in ROWS)
    for word, owner in (
        ("rounds", counting.Survey),
        ("bit", counting.Report),
        ("truth", Simulation),
        ("share", counting.Estimates),
    ):
        assert f"{owner.__name__}.{word}" in text
        assert word in owner.__annotations__ or hasattr(owner, word)
