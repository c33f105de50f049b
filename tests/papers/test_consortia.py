"""The comparison behind the classification figures."""

import math

import numpy as np
import pytest

from papers import consortia
from papers.figure import Results, measured
from sudare.foundations.randomness import seeded


@pytest.fixture(scope="module")
def found() -> Results:
    drawn = consortia.synthetic(3, 6, 80, 2_000, 5)
    return Results(consortia.compare("p", drawn, (0.05, 1000.0), 6, judges=2))


def test_all_curves_are_there(found: Results) -> None:
    assert set(found.curves("p")) == set(consortia.STYLE)


def test_fixed_curves_do_not_depend_on_epsilon(found: Results) -> None:
    for curve in (consortia.OWN, consortia.POOLED):
        assert found.at("p", curve, 0.05).value == found.at("p", curve, 1000.0).value


def test_without_noise_everyone_is_nearly_right_and_with_much_mirror_is_not(found: Results) -> None:
    pooled = found.at("p", consortia.POOLED, 1000.0).value
    for curve in (consortia.MIRROR, consortia.MIX, consortia.HEDGED, consortia.HEDGED_LEARNERS):
        assert found.at("p", curve, 1000.0).value > pooled - 0.03
    assert found.at("p", consortia.MIRROR, 0.05).value < pooled - 0.05
    assert (
        found.at("p", consortia.HEDGED, 0.05).value
        > found.at("p", consortia.OWN, 0.05).value - 0.02
    )


def test_synthetic_rows_and_labels() -> None:
    parties, test = consortia.synthetic(4, 3, 50, 20_000, 1)
    assert [len(party.labels) for party in parties] == [50, 50, 50]
    np.testing.assert_allclose(np.linalg.norm(test.rows, axis=1), 1)
    # The norm of the coefficients is 5: least squares of the log-odds' slope near zero says so.
    from sklearn.linear_model import LogisticRegression

    theta = LogisticRegression(C=1e6, fit_intercept=False).fit(test.rows, test.labels).coef_[0]
    assert abs(np.linalg.norm(theta) - 5) < 0.25
    assert not np.array_equal(parties[0].rows, parties[1].rows)


def test_dealing_out_loses_no_row_and_uses_none_twice() -> None:
    rows = np.arange(100.0)[:, None]
    parties, test = consortia.deal_out(rows, np.arange(100), 7, 3)
    seen = np.concatenate([test.labels, *(party.labels for party in parties)])
    assert sorted(seen) == list(range(100))
    assert len(test.labels) == 30
    assert {len(party.labels) for party in parties} == {10}


def test_own_release_is_left_out() -> None:
    assert consortia._without(["a", "b", "c"], 1) == ["a", "c"]


def _made_up(gains: dict[float, float], noise: float = 0.001) -> Results:
    rng = seeded(8)
    samples = []
    for epsilon, mean in gains.items():
        own = 0.8 + 0.05 * rng.standard_normal(20)
        aggregate = own + mean + noise * rng.standard_normal(20)
        samples.append(measured("p", consortia.OWN, epsilon, own))
        samples.append(measured("p", consortia.MIRROR, epsilon, aggregate))
    return Results(samples)


def test_gain_is_in_points_and_paired() -> None:
    gain = consortia.gain(_made_up({1.0: 0.02}), "p", consortia.MIRROR, 1.0)
    assert gain.value == pytest.approx(2, abs=0.1)
    assert gain.half_width < 0.1
    assert consortia.told(gain).startswith("+2.0 ± 0.")


def test_where_it_begins_to_pay() -> None:
    def pays(*gains: float) -> float | None:
        told = _made_up(dict(zip((0.1, 1.0, 10.0), gains, strict=True)))
        return consortia.pays_from(told, "p", consortia.MIRROR)

    assert pays(-0.1, 0.02, 0.03) == 1.0
    assert pays(0.02, 0.02, 0.03) == 0.1
    assert pays(0.02, -0.02, 0.03) == 10.0
    assert pays(0.02, 0.02, -0.03) is None


def test_the_worst_of_all() -> None:
    told = _made_up({0.1: -0.04, 1.0: 0.01})
    worst = consortia.worst(told, ["p"], consortia.MIRROR)
    assert math.isclose(worst.value, -4, abs_tol=0.1)
