"""Masks and smoothing on the same axes."""

from papers import Verdict
from papers.glance_masks import GLANCE, MASKS, PANELS
from sudare.counting import Survey
from sudare.counting._planning import plan
from sudare.counting._prediction import predict_error
from tests.papers.smoke import check_figure, results, verdict


def test_it_runs() -> None:
    check_figure("glance-masks", "share .9995", "Glance, smoothed")


def test_errors_are_as_predicted() -> None:
    for panel, share in PANELS.items():
        for epsilon in (2.0, 8.0):
            best = plan(10_000, 50, epsilon, share=share).best
            glance = Survey(name="g", rounds=50, epsilon=epsilon)
            for curve, error in (
                (MASKS, best.error),
                (GLANCE, predict_error(glance, 10_000, share)),
            ):
                found = results("glance-masks").at(panel, curve, epsilon)
                assert found.low * 0.93 < error < found.high * 1.07


def test_other_worlds_get_other_verdicts() -> None:
    def world(masks: float) -> Verdict:
        def told(panel: str, curve: str, x: float, values: object) -> float:
            return 0.1 * masks**-x if curve == MASKS else 0.1

        return verdict("glance-masks", told)

    assert world(1.2) is Verdict.HOLDS
    assert world(1.0) is Verdict.FAILS
    assert world(0.9) is Verdict.FAILS
