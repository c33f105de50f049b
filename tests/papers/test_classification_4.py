"""Accuracy on breast cancer."""

from papers import Verdict, consortia, datasets
from papers.classification_4 import PANELS, Task, gains, measure
from tests.papers.smoke import check_figure, results, verdict


def test_it_runs() -> None:
    check_figure("classification-4", "10 organisations", "mirror averaging (paper)")


def test_the_claim_is_about_mirror_averaging_and_the_correction_about_the_blend() -> None:
    def world(mirror: float, hedged: float) -> Verdict:
        told = {consortia.MIRROR: mirror, consortia.HEDGED: hedged}
        return verdict("classification-4", lambda p, c, x, v: 0.9 + told.get(c, 0.0))

    assert world(0.01, -0.01) is Verdict.HOLDS
    assert world(-0.01, 0.01) is Verdict.CORRECTED
    assert world(-0.01, 0.0) is Verdict.FAILS


def test_models_are_as_good_as_is_known() -> None:
    for panel, lowest in zip(PANELS, (0.93, 0.9), strict=True):
        assert results("classification-4").at(panel, consortia.OWN, 2.0).value > lowest
        assert results("classification-4").at(panel, consortia.POOLED, 2.0).value > 0.94


def test_a_seed_decides() -> None:
    rows, labels = datasets.breast_cancer()
    task = Task("5 organisations", (2.0,), 1, 3, (rows[:200, :4], labels[:200]))
    first, second = measure(task), measure(task)
    assert [s[:3] for s in first] == [s[:3] for s in second]
    assert all(a.values == b.values for a, b in zip(first, second, strict=True))
    assert any(
        a.values != b.values for a, b in zip(first, measure(task._replace(seed=4)), strict=True)
    )


def test_gains_in_words() -> None:
    words = gains(results("classification-4"), consortia.HEDGED, 10.0)
    assert "points over five organisations and" in words
