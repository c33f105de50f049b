"""Exponents beside the printed orders."""

from papers import Verdict, figures
from papers.glance_table_1 import CASES, FAR, MIDDLE, PROVED
from tests.papers.smoke import check_figure, results, verdict


def test_it_holds_with_the_correction() -> None:
    check_figure("glance-table-1")
    assert verdict("glance-table-1") is Verdict.CORRECTED


def test_other_worlds_get_other_verdicts() -> None:
    dense = "glance, dense or sparse"

    def endless(panel: str, curve: str, x: float, values: object) -> object:
        return 0.5 if panel == dense and curve in (MIDDLE, FAR, PROVED) else values

    def slow(panel: str, curve: str, x: float, values: object) -> object:
        return 0.1 if panel == dense and curve in (MIDDLE, FAR) else values

    assert verdict("glance-table-1", endless) is Verdict.HOLDS  # type: ignore[arg-type]
    assert verdict("glance-table-1", slow) is Verdict.FAILS  # type: ignore[arg-type]


def test_the_table_has_the_papers_lines() -> None:
    figure = figures()["glance-table-1"]
    assert figure.table is not None
    table = figure.table(results("glance-table-1"))
    assert [row[:3] for row in table.rows] == [
        (case.method.capitalize(), case.name, "O(1/ε)") for case in CASES
    ]
    assert [row[4] for row in table.rows] == ["O(1)", "O(e^(−ε/2))", "Θ(1)", "Θ(1)"]
    assert {len(row) for row in table.rows} == {len(table.header)}
