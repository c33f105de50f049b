"""Simulated errors of Glance and Harmony."""

import pytest

from papers import Setting, Verdict
from papers.glance_3 import PANEL, tasks
from tests.papers.smoke import check_figure, results, verdict


def test_it_runs() -> None:
    check_figure("glance-3", "Harmony, share .5", "10,000 users")


@pytest.mark.parametrize(
    ("curve", "known"),
    [
        ("Glance-General", (0.192, 0.091, 0.088)),
        ("Harmony-General", (0.271, 0.129, 0.124)),
        ("Glance-DS", (0.171, 0.026, 0.0070)),
        ("Harmony-DS", (0.326, 0.181, 0.176)),
    ],
)
def test_errors_are_as_is_known(curve: str, known: tuple[float, ...]) -> None:
    """Fifty runs of ours beside 4,000 of an independent simulation."""
    for epsilon, error in zip((1.0, 4.0, 8.0), known, strict=True):
        found = results("glance-3").at(PANEL, curve, epsilon)
        assert abs(found.value - error) < 2.5 * found.half_width + 0.0005


def test_other_worlds_get_other_verdicts() -> None:
    def world(rate: float, floor: float) -> Verdict:
        def told(panel: str, curve: str, x: float, values: object) -> float:
            return 0.2 * rate**-x if curve == "Glance-DS" else floor + 0.3 * 4**-x

        return verdict("glance-3", told)

    assert world(1.65, 0.1) is Verdict.HOLDS
    assert world(1.2, 0.1) is Verdict.FAILS
    assert world(1.65, 0.0) is Verdict.FAILS


def test_the_full_size_is_the_papers() -> None:
    full = tasks(Setting())
    assert {task.runs for task in full} == {10_000}
    assert {task.epsilon for task in full} >= {1.0, 8.0}
    assert len({task.seed for task in full}) == len(full)
