"""Smoothing: never a later round, and worth it on calm signals without harm on others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.counting import Survey, Tally, estimate, smooth
from sudare.counting.smoothing import init, result, smooth_many, step
from sudare.foundations.randomness import seeded

ROUNDS = 50


def noisy(signal, runs: int, std: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    raw = signal + std * rng.standard_normal((runs, len(signal)))
    return raw, np.full(raw.shape, std)


@given(
    seed=st.integers(0, 99),
    now=st.integers(0, 18),
    later=st.floats(-5, 5) | st.just(np.nan),
    spread=st.floats(1e-6, 1e6) | st.just(np.inf),
)
@settings(max_examples=50)
def test_the_past_never_changes(seed, now, later, spread):
    raw, std = noisy(np.full(20, 0.3), 2, 0.1, seed)
    before = smooth_many(raw, std)
    raw[:, now + 1 :] = later
    std[:, now + 1 :] = spread
    after = smooth_many(raw, std)
    assert after[:, : now + 1].tobytes() == before[:, : now + 1].tobytes()
    assert (
        smooth_many(raw[:, : now + 1], std[:, : now + 1]).tobytes()
        == before[:, : now + 1].tobytes()
    )


def test_the_present_does_count():
    raw, std = noisy(np.full(20, 0.3), 1, 0.1)
    before = smooth_many(raw, std)
    raw[0, 10] += 0.5
    after = smooth_many(raw, std)
    assert after[0, 10] > before[0, 10] + 0.1
    assert (after[0, 10:] != before[0, 10:]).all()


def test_many_curves_are_as_one_by_one():
    raw, std = noisy(np.linspace(0.1, 0.9, 30), 7, 0.2)
    raw[2, 5:9], std[3, 0] = np.nan, np.inf
    together = smooth_many(raw, std)
    for i in range(7):
        assert smooth_many(raw[i], std[i]).tobytes() == together[i].tobytes()
    deep = smooth_many(raw.reshape(7, 1, 30), std.reshape(7, 1, 30))
    assert deep.tobytes() == together.tobytes()


def test_silent_rounds_keep_the_share_and_let_doubt_grow():
    state = init()
    for _ in range(10):
        state = step(state, 0.2, 0.05)
    share, doubt = result(state)
    for seen, std in ((np.nan, np.inf), (np.nan, 0.1), (0.9, np.inf)):
        later = step(state, seen, std)
        assert result(later)[0] == share
        assert result(later)[1] > doubt
        assert later.merits.tolist() == state.merits.tolist()


def test_before_the_first_report_there_is_no_share():
    raw, std = noisy(np.full(6, 0.3), 3, 0.1)
    raw[0, :2], std[1, :4], raw[2] = np.nan, np.inf, np.nan
    curve = smooth_many(raw, std)
    assert np.isnan(curve).sum(axis=1).tolist() == [2, 4, 6]
    assert np.isnan(curve[0, :2]).all()
    assert np.isnan(curve[1, :4]).all()
    share, doubt = result(step(init(), np.nan, np.inf))
    assert np.isnan(share)
    assert doubt == np.inf
    # A report that says just what the filters begin with is one all the same.
    assert result(step(init(), 0.5, 1.0))[0] == pytest.approx(0.5)


def test_curves_are_shares():
    raw, std = noisy(np.full(30, 0.02), 50, 3.0)
    curve = smooth_many(raw, std)
    assert np.isfinite(curve).all()
    assert ((curve >= 0) & (curve <= 1)).all()
    wild = smooth_many(raw * 1e6, std * 1e6)
    assert np.isfinite(wild).all()
    exact = smooth_many(np.full((1, 5), 0.25), np.zeros((1, 5)))
    assert exact == pytest.approx(0.25, abs=1e-5)


def test_smooth_takes_estimates():
    survey = Survey(name="s", rounds=3, epsilon=2.0)
    tally = Tally(survey.digest(), np.array([50, 0, 60]), np.array([20, 0, 30]))
    found = estimate(tally, survey)
    assert smooth(found).tobytes() == smooth_many(found.raw, found.std).tobytes()
    assert np.isfinite(smooth(found)).all()


SIGNALS = {
    "constant": (np.full(ROUNDS, 0.3), 0.55),
    "walk": (0.4 + np.cumsum(seeded(4).normal(0, 0.005, ROUNDS)), 0.6),
    "step": (np.where(np.arange(ROUNDS) < 25, 0.1, 0.9), 1.02),
    "iid": (seeded(5).random(ROUNDS), 1.02),
}


def worst(curve, signal) -> float:
    """The mean over runs of the largest error."""
    return float(np.abs(curve - signal).max(axis=-1).mean())


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("std", [0.03, 0.1])
def test_smoothing_pays(name, std):
    """The largest error of a curve, against the raw estimates' own. (Against raw estimates cut to
    [0, 1], jumps between the ends of the scale can cost a tenth.)"""
    signal, ratio = SIGNALS[name]
    raw, stds = noisy(signal, 400, std, seed=9)
    assert worst(smooth_many(raw, stds), signal) <= ratio * worst(raw, signal)


def test_one_fixed_filter_fails_where_the_bank_does_not():
    """The reject arm: the calmest filter alone is the best on a constant and useless at a step."""

    def alone(raw, std):
        state = init(raw.shape[:-1])
        curve = np.empty(raw.shape)
        for t in range(raw.shape[-1]):
            state = step(state, raw[..., t], std[..., t])
            curve[..., t] = state.means[..., 0]
        return curve

    for name, beats in (("constant", True), ("step", False)):
        signal, ratio = SIGNALS[name]
        raw, stds = noisy(signal, 100, 0.1, seed=9)
        assert (worst(alone(raw, stds), signal) <= ratio * worst(raw, signal)) is beats
