"""Exponential weights and mirror averaging against brute force, and as estimators."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.blending import mirror
from sudare.blending.mirror import (
    ExponentialWeights,
    MirrorAveraging,
    accumulate,
    init,
    last_weights,
    mirror_weights,
    step,
)
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from tests.blending.parties import CLASSES, NUMBERS, rows_and_targets, some_learners


def by_brute_force(losses: Any, temperature: float, prior: Any = None) -> dict[str, Any]:
    """All three kinds of weights with fifty digits, straight from the definition."""
    n, learners = losses.shape
    with mpmath.workdps(50):
        start = [mpmath.mpf(1)] * learners if prior is None else [mpmath.mpf(p) for p in prior]
        every = []
        for t in range(n + 1):
            raw = [
                start[m]
                * mpmath.exp(-mpmath.fsum(mpmath.mpf(losses[i, m]) for i in range(t)) / temperature)
                for m in range(learners)
            ]
            every.append([r / mpmath.fsum(raw) for r in raw])
        mean = lambda rows: [float(mpmath.fsum(c) / len(rows)) for c in zip(*rows, strict=True)]  # noqa: E731
        return {
            "all": mean(every),
            "printed": mean(every[1:]),
            "last": [float(w) for w in every[-1]],
        }


def weights_of(losses: Any, temperature: float, prior: Any = None) -> dict[str, Any]:
    state = step(init(losses.shape[1], prior), losses, temperature)
    return {
        "all": mirror_weights(state),
        "printed": mirror_weights(state, include_prior=False),
        "last": last_weights(state),
    }


@pytest.mark.parametrize("temperature", [0.01, 1.0, 37.5])
@pytest.mark.parametrize("with_prior", [False, True])
def test_weights_against_fifty_digits(temperature: float, with_prior: bool) -> None:
    rng = seeded(3)
    for learners, n in ((1, 3), (2, 7), (6, 12)):
        losses = rng.exponential(size=(n, learners))
        prior = rng.dirichlet(np.ones(learners)) if with_prior else None
        exact = by_brute_force(losses, temperature, prior)
        for kind, weights in weights_of(losses, temperature, prior).items():
            assert weights == pytest.approx(exact[kind], rel=1e-12, abs=1e-20), kind


def test_learners_that_are_skipped_lose_less_than_rounding() -> None:
    """One learner falls far behind and comes back when another collapses."""
    losses = np.zeros((600, 8))
    losses[:200, 0] = 1.0
    losses[200:, 1:] = 1.0
    exact = by_brute_force(losses[::10] * 10, 1.0)
    for kind, weights in weights_of(losses[::10] * 10, 1.0).items():
        assert weights == pytest.approx(exact[kind], rel=1e-12, abs=1e-20)
    # In small steps the weights differ, but the learner must come back as well.
    assert last_weights(step(init(8), losses, 1.0))[0] == pytest.approx(1.0)


def test_skipping_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = seeded(5)
    losses = rng.exponential(size=(1_000, 40)) * np.linspace(0.2, 0.4, 40)
    monkeypatch.setattr(mirror, "block_rows", lambda learners: 20)
    skipping = weights_of(losses, 1.0)
    monkeypatch.setattr(mirror, "_NEGLIGIBLE", np.inf)
    for kind, weights in weights_of(losses, 1.0).items():
        assert skipping[kind] == pytest.approx(weights, rel=1e-12, abs=1e-24)
    monkeypatch.setattr(mirror, "_NEGLIGIBLE", 1.0)
    assert np.abs(weights_of(losses, 1.0)["all"] - skipping["all"]).max() > 1e-9


@pytest.mark.parametrize("constant", [-1e6, -3.0, 1.0, 1e6])
def test_a_constant_added_to_all_losses_changes_nothing(constant: float) -> None:
    rng = seeded(1)
    # Dyadic, so that adding the constant is exact.
    losses = rng.integers(0, 2**12, size=(50, 9)) * 2.0**-10
    plain, moved = weights_of(losses, 0.7), weights_of(losses + constant, 0.7)
    for kind, weights in plain.items():
        assert moved[kind] == pytest.approx(weights, rel=1e-7, abs=1e-15)


def test_losses_of_a_million_and_a_hundred_thousand_learners() -> None:
    rng = seeded(2)
    losses = 1e6 * (1 + rng.random((20, 100_000)))
    losses[:, 4_321] = 1e6
    for weights in weights_of(losses, 1.0).values():
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
        assert weights.sum() == pytest.approx(1, abs=1e-6)
        assert np.argmax(weights) == 4_321
    cold = weights_of(np.full((20, 100_000), 1e6), 1e-3)
    for weights in cold.values():
        assert np.abs(weights - 1e-5).max() < 1e-11


def test_many_learners_have_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = seeded(6)
    losses = rng.exponential(size=(300, 5_000)) * np.linspace(0.1, 1, 5_000)
    single = weights_of(losses, 1.0)
    monkeypatch.setattr(mirror, "_MANY", 10_000)
    double = weights_of(losses, 1.0)
    for kind in ("all", "printed"):
        known = double[kind] > 1e-20
        error = np.abs(single[kind] / double[kind] - 1)[known]
        assert error.max() < 5e-6
        assert np.median(error) < 2e-7
        assert (error > 0).any()
        assert np.abs(single[kind] - double[kind]).max() < 1e-8
    assert single["last"] == pytest.approx(double["last"], rel=1e-10, abs=1e-300)


def test_weights_follow_the_learners() -> None:
    rng = seeded(4)
    losses, order = rng.exponential(size=(60, 30)), rng.permutation(30)
    plain, turned = weights_of(losses, 1.0), weights_of(losses[:, order], 1.0)
    for kind, weights in plain.items():
        assert turned[kind] == pytest.approx(weights[order], rel=1e-12)


@given(
    st.integers(1, 40),
    st.integers(1, 200),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 200), max_size=4),
)
def test_online_is_batch(learners: int, n: int, seed: int, cuts: list[int]) -> None:
    losses = seeded(seed).exponential(size=(n, learners)) * 5
    whole = step(init(learners), losses, 1.0)
    state = init(learners)
    for part in np.split(losses, sorted(min(c, n) for c in cuts)):
        if len(part):
            before = tuple(np.copy(field) for field in state)
            new = step(state, part, 1.0)
            assert all((b == np.asarray(f)).all() for b, f in zip(before, state, strict=True))
            state = new
    assert state.rows == whole.rows == n
    assert mirror_weights(state) == pytest.approx(mirror_weights(whole), rel=1e-9, abs=1e-18)
    assert last_weights(state) == pytest.approx(last_weights(whole), rel=1e-9, abs=1e-18)


@pytest.mark.parametrize("columns", [3, 5_000])
@pytest.mark.parametrize("rows", [1, 2, 3, 16, 17, 130])
def test_running_sums(rows: int, columns: int) -> None:
    table = seeded(rows).normal(size=(rows, columns))
    expected = np.cumsum(table, axis=0)
    accumulate(table)
    assert np.abs(table - expected).max() < 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: init(0), "learners=0 >= 1"),
        (lambda: init(2, [1.0]), "2 positive numbers"),
        (lambda: init(2, [1.0, 0.0]), "2 positive numbers"),
        (lambda: step(init(2), [[1.0, 2.0, 3.0]], 1.0), "2 columns"),
        (lambda: step(init(2), [[1.0, np.nan]], 1.0), "NaN or infinity"),
        (lambda: step(init(2), [1.0, 2.0], 1.0), "2 dimension"),
        (lambda: step(init(2), [[1.0, 2.0]], 0.0), "temperature=0.0 > 0"),
        (lambda: mirror_weights(init(2), include_prior=False), "at least one row"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize(
    ("contract", "loss"), [(CLASSES, "logistic"), (CLASSES, "zero-one"), (NUMBERS, "squared")]
)
@pytest.mark.parametrize("kind", [MirrorAveraging, ExponentialWeights])
def test_estimators_weigh_by_the_loss_of_what_they_mix(contract: Any, loss: str, kind: Any) -> None:
    releases = some_learners(contract)
    table, y, numbers = rows_and_targets(contract, 30)
    model = kind(releases, loss=loss).fit(table, y)
    scores = contract.rows(table) @ np.array([r.coefficients for r in releases]).T
    signed = numbers[:, None] * scores
    losses = {
        "logistic": np.log1p(np.exp(-signed)),
        "zero-one": (signed <= 0) * 1.0,
        "squared": (numbers[:, None] - np.clip(scores, -2, 2)) ** 2,
    }[loss]
    temperature = {"logistic": 1, "squared": 32, "zero-one": np.sqrt(31 / (8 * np.log(5)))}[loss]
    assert model.temperature_ == pytest.approx(temperature)
    expected = by_brute_force(losses, temperature)
    name = "all" if kind is MirrorAveraging else "last"
    assert model.weights_ == pytest.approx(expected[name], rel=1e-9)
    if kind is MirrorAveraging:
        printed = kind(releases, loss=loss, include_prior=False).fit(table, y)
        assert printed.weights_ == pytest.approx(expected["printed"], rel=1e-9)
        assert np.abs(printed.weights_ - model.weights_).max() > 1e-3
        price = temperature * np.log(5) / 31
        assert model.oracle_price_ == pytest.approx(2 * price if loss == "zero-one" else price)


def test_a_temperature_of_ones_own() -> None:
    table, y, _ = rows_and_targets(CLASSES, 30)
    hot = MirrorAveraging(some_learners(CLASSES), temperature=1e9).fit(table, y)
    assert hot.weights_ == pytest.approx([0.2] * 5, rel=1e-6)
    cold = ExponentialWeights(some_learners(CLASSES), temperature=1e-9).fit(table, y)
    assert cold.weights_.max() == 1
    assert cold.temperature_ == 1e-9


def test_more_rows_later() -> None:
    table, y, _ = rows_and_targets(CLASSES, 50)
    releases = some_learners(CLASSES)
    whole = MirrorAveraging(releases).fit(table, y)
    parts = MirrorAveraging(releases).partial_fit(table[:20], y[:20])
    parts.partial_fit(table[20:], y[20:])
    assert parts.weights_ == pytest.approx(whole.weights_, rel=1e-12)
    assert parts.fit(table[:20], y[:20]).state_.rows == 20
    with pytest.raises(InvalidInput, match="as many targets as rows"):
        parts.partial_fit(table, y[:3])
    votes = MirrorAveraging(releases, loss="zero-one").partial_fit(table, y)
    with pytest.raises(InvalidInput, match="temperature in numbers"):
        votes.partial_fit(table, y)


@pytest.mark.parametrize(
    ("contract", "changes", "message"),
    [
        (CLASSES, {"loss": "squared"}, "one of 'logistic', 'zero-one'"),
        (NUMBERS, {"loss": "logistic"}, "one of 'squared'"),
        (CLASSES, {"loss": "hinge"}, "one of 'logistic', 'zero-one'"),
        (CLASSES, {"temperature": "cold"}, "one of 'theory'"),
        (CLASSES, {"temperature": -1.0}, "temperature=-1.0 > 0"),
    ],
)
def test_bad_parameters(contract: Any, changes: dict[str, Any], message: str) -> None:
    table, y, _ = rows_and_targets(contract, 10)
    with pytest.raises(InvalidInput, match=message):
        MirrorAveraging(some_learners(contract), **changes).fit(table, y)
