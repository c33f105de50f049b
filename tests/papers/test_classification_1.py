"""The intuition, measured."""

from papers import Setting, Size, Verdict, consortia
from papers.classification_1 import CURVES, EPSILONS, tasks
from tests.papers.smoke import check_figure, verdict

ACCURACY = {consortia.OWN: 0.7, consortia.POOLED: 0.78}


def test_it_runs() -> None:
    check_figure("classification-1", "all rows in one place", "strong")


def test_the_papers_picture_would_hold() -> None:
    def rising(panel: str, curve: str, x: float, values: object) -> float:
        return ACCURACY.get(curve, 0.65 + 0.125 * (x >= 1))

    def falling(panel: str, curve: str, x: float, values: object) -> float:
        return ACCURACY.get(curve, 0.775 - 0.125 * (x >= 1))

    def far(panel: str, curve: str, x: float, values: object) -> float:
        return ACCURACY.get(curve, 0.65 + 0.1 * (x >= 1))

    def late(panel: str, curve: str, x: float, values: object) -> float:
        least = 1 if curve == consortia.HEDGED else 3
        return ACCURACY.get(curve, 0.65 + 0.125 * (x >= least))

    assert verdict("classification-1", rising) is Verdict.HOLDS
    assert verdict("classification-1", late) is Verdict.CORRECTED
    assert verdict("classification-1", falling) is Verdict.FAILS
    assert verdict("classification-1", far) is Verdict.FAILS


def test_the_full_size_is_the_papers() -> None:
    full = tasks(Setting())
    assert {task.organisations for task in full} == {100}
    assert {task.epsilons for task in full} == {EPSILONS}
    assert len(tasks(Setting(Size.QUICK))) < len(full)
    assert set(CURVES) <= set(consortia.STYLE)
