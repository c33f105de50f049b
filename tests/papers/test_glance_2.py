"""Bounds that cross."""

import pytest

from papers import Verdict
from papers.glance_2 import (
    EXCEEDED,
    GLANCE,
    GLANCE_ROOT,
    HARMONY,
    HARMONY_PROVED,
    crossing,
)
from tests.papers.smoke import check_figure, results, verdict


def test_it_runs_and_holds_with_the_correction() -> None:
    check_figure("glance-2", "ε = 7.82", "ε = 6.20", "Harmony at least")
    assert verdict("glance-2") is Verdict.CORRECTED


def test_crossings() -> None:
    found = results("glance-2")
    assert crossing(found, GLANCE, HARMONY) == pytest.approx(7.82, abs=0.005)
    assert crossing(found, GLANCE_ROOT, HARMONY_PROVED) == pytest.approx(6.20, abs=0.005)


def test_other_worlds_get_other_verdicts() -> None:
    def reached(panel: str, curve: str, x: float, values: object) -> object:
        return 1.0 if panel == EXCEEDED else values

    def doubled(panel: str, curve: str, x: float, values: object) -> object:
        return 2 * values if curve in (GLANCE, GLANCE_ROOT) else values  # type: ignore[operator]

    assert verdict("glance-2", reached) is Verdict.HOLDS  # type: ignore[arg-type]
    assert verdict("glance-2", doubled) is Verdict.FAILS  # type: ignore[arg-type]
