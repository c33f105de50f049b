"""Accuracy on synthetic data."""

from papers import Setting, Verdict, consortia
from papers.classification_3 import EACH, ORGANISATIONS, tasks
from tests.papers.smoke import check_figure, verdict


def test_it_runs() -> None:
    check_figure("classification-3", "20 columns", "logistic mix", "privacy budget")


def test_the_claim_is_about_mirror_averaging_and_the_correction_about_the_blend() -> None:
    def world(mirror: float, hedged: float) -> Verdict:
        gains = {consortia.MIRROR: mirror, consortia.HEDGED: hedged}
        return verdict("classification-3", lambda p, c, x, v: 0.7 + gains.get(c, 0.0))

    assert world(0.02, -0.01) is Verdict.HOLDS
    assert world(-0.02, 0.01) is Verdict.CORRECTED
    assert world(-0.02, -0.01) is Verdict.FAILS


def test_the_full_size_is_the_papers() -> None:
    assert ORGANISATIONS * EACH == 5_000
    assert {task.organisations for task in tasks(Setting())} == {100}
    assert {task.epsilons for task in tasks(Setting())} == {consortia.EPSILONS}
