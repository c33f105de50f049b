"""Black-box audits of mechanisms whose privacy is known.

Seeds are fixed, so a run is reproducible. For fresh seeds, each accept arm would raise a false
alarm with probability 0.001 at most (its own `1 - confidence`), the module as a whole with less
than 0.02.
"""

import math
import tracemalloc

import numpy as np
import pytest
from scipy.stats import binom

from sudare.audit import audit, repeat
from sudare.calibration import gaussian_mu
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded


def randomised_response(epsilon):
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return lambda bit, runs, rng: (rng.random(runs) < truth) == bool(bit)


def laplace(scale):
    return lambda value, runs, rng: value + rng.laplace(0.0, scale, runs)


def gaussian(noise_std, dimension=1):
    return lambda value, runs, rng: value + rng.normal(0.0, noise_std, (runs, dimension))


GAUSSIAN_STD = 1 / gaussian_mu(1.0, 0.01)

ARMS = [
    ("randomised response", lambda k: randomised_response(1 / k), 0.0, 100_000),
    ("Laplace", laplace, 0.0, 100_000),
    ("Laplace in ten dimensions", lambda k: lambda v, runs, rng: np.eye(10)[0] * v
     + rng.laplace(0.0, k, (runs, 10)), 0.0, 100_000),
    ("Gaussian", lambda k: gaussian(k * GAUSSIAN_STD), 0.01, 200_000),
    ("Gaussian along a diagonal", lambda k: gaussian(k * GAUSSIAN_STD * math.sqrt(3), 3), 0.01,
     200_000),
]  # fmt: skip


@pytest.mark.parametrize(("make", "delta", "runs"), [a[1:] for a in ARMS], ids=[a[0] for a in ARMS])
def test_true_noise_is_accepted_and_less_is_rejected(make, delta, runs):
    claim = {"epsilon": 1.0, "delta": delta, "runs": runs}
    nominal = audit(make(1.0), 0, 1, rng=seeded(1), **claim)
    assert not nominal.violated
    assert nominal.epsilon_lower > 0.75, "the audit has power: it comes close to the truth"
    weak = audit(make(0.8), 0, 1, rng=seeded(2), **claim)
    assert weak.violated
    assert weak.epsilon_lower < 1.26, "and does not claim more than there is"


def test_false_alarms_are_as_rare_as_promised():
    """Randomised response is exactly tight, so every audit is at risk of a false alarm."""
    audits, confidence = 300, 0.8
    alarms = sum(
        audit(
            randomised_response(0.5), 0, 1, epsilon=0.5, runs=600, confidence=confidence, rng=seed
        ).violated
        for seed in range(audits)
    )
    assert alarms <= binom.ppf(0.9999, audits, 1 - confidence)
    assert alarms >= 1, "the bound is not so slack that nothing could ever fail"


def test_the_same_audit_catches_a_shortfall_as_often_as_it_should():
    """The reject arm of the test above: the same audits, with less noise than claimed."""
    found = sum(
        audit(
            randomised_response(0.9), 0, 1, epsilon=0.5, runs=600, confidence=0.8, rng=seed
        ).violated
        for seed in range(50)
    )
    assert found > 35


def test_a_deterministic_leak():
    finding = audit(lambda data, runs, rng: np.full(runs, data), 3, 4, epsilon=1.0, rng=seeded(0))
    assert finding.violated
    assert finding.epsilon_lower > 8
    assert finding.event == "output 1 equals 3"
    assert {finding.count_first, finding.count_second} == {0, finding.counted_runs}


def test_a_leak_in_one_output_of_many():
    def mechanism(data, runs, rng):
        outputs = rng.normal(size=(runs, 100))
        outputs[:, 63] += 0.7 * data
        return outputs

    finding = audit(mechanism, 0, 1, epsilon=0.5, runs=20_000, rng=seeded(0))
    assert finding.violated
    assert finding.epsilon_lower > 0.8


def test_a_leak_only_in_the_joint_law():
    """Each bit is fair under both inputs; under the second the two always agree."""

    def mechanism(data, runs, rng):
        bits = rng.integers(0, 2, (runs, 2))
        if data:
            bits[:, 1] = bits[:, 0]
        return bits

    finding = audit(mechanism, False, True, epsilon=1.0, runs=10_000, rng=seeded(0))
    assert finding.epsilon_lower > 5
    assert finding.more_likely_under == "first"


@pytest.mark.parametrize(
    ("mark", "words"), [(np.nan, "not a number"), (np.inf, "plus"), (-np.inf, "minus")]
)
def test_outputs_that_are_not_finite_are_outputs(mark, words):
    def mechanism(data, runs, rng):
        return np.where(rng.random(runs) < (0.3 if data else 0.01), mark, rng.normal(size=runs))

    finding = audit(mechanism, 0, 1, epsilon=1.0, runs=20_000, rng=seeded(0))
    assert finding.violated
    assert words in finding.event
    assert finding.epsilon_lower < math.log(0.3 / 0.01)


def test_nothing_but_nan():
    finding = audit(
        lambda data, runs, rng: np.full((runs, 2), np.nan), 0, 1, epsilon=1.0, runs=400, rng=0
    )
    assert finding.epsilon_lower == 0.0
    assert not finding.violated


def test_equal_inputs_show_nothing():
    finding = audit(gaussian(1.0, 3), 0, 0, epsilon=0.1, rng=seeded(0))
    assert finding.epsilon_lower < 0.02


def test_the_smallest_audit_works():
    assert audit(laplace(1.0), 0, 1, epsilon=1.0, runs=100, rng=0).counted_runs == 50


def test_counts_are_reproducible_and_add_up():
    seen = {0: 0, 1: 0}

    def mechanism(data, runs, rng):
        seen[data] += runs
        return data + rng.laplace(0.0, 1.0, runs)

    finding = audit(mechanism, 0, 1, epsilon=1.0, runs=30_001, rng=seeded(5))
    assert seen == {0: 30_001, 1: 30_001}
    assert finding.runs == 30_001
    assert finding.counted_runs == 15_000
    assert finding == audit(mechanism, 0, 1, epsilon=1.0, runs=30_001, rng=seeded(5))
    assert finding == audit(mechanism, 0, 1, epsilon=1.0, runs=30_001, rng=5)


def test_without_a_generator_the_draws_are_fresh():
    findings = {audit(laplace(1.0), 0, 1, epsilon=1.0, runs=20_000) for _ in range(3)}
    assert len(findings) == 3


def test_progress_is_told_from_start_to_end():
    calls = []
    audit(
        gaussian(1.0, 4),
        0,
        1,
        epsilon=1.0,
        runs=600_000,
        rng=seeded(0),
        progress=lambda done, total: calls.append((done, total)),
    )
    assert len(calls) > 4
    assert {total for _, total in calls} == {1_200_000}
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    assert calls[-1] == (1_200_000, 1_200_000)


@pytest.mark.parametrize(("runs", "dimension"), [(2_000_000, 4), (200, 50_000)])
def test_memory_is_bounded(runs, dimension):
    """All outputs together would take 128 MB and 160 MB."""
    tracemalloc.start()
    try:
        audit(lambda v, n, rng: v + rng.random((n, dimension)), 0, 0, epsilon=1.0, runs=runs, rng=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6


def test_repeat_adapts_a_single_draw():
    vectorised = repeat(lambda data, rng: [data + rng.laplace(), rng.normal()])
    outputs = vectorised(10, 500, seeded(0))
    assert outputs.shape == (500, 2)
    assert len(np.unique(outputs[:, 0])) == 500
    assert audit(repeat(lambda d, rng: d), 0, 1, epsilon=1.0, runs=200, rng=0).violated


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "Expected epsilon=0.0 > 0"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -0.1}, "delta"),
        ({"runs": 99}, "Expected runs=99 >= 100"),
        ({"runs": 1000.0}, "runs"),
        ({"confidence": 0.0}, "confidence"),
        ({"confidence": 1.0}, "confidence"),
        ({"rng": "dice"}, "rng"),
    ],
)
def test_bad_parameters_are_named(changes, message):
    with pytest.raises(InvalidInput, match=message):
        audit(laplace(1.0), 0, 1, **{"epsilon": 1.0, "runs": 200, **changes})


def ragged(data, runs, rng):
    return [[987.5]] * (runs - 1) + [[987.5, 987.5]]


@pytest.mark.parametrize(
    "mechanism",
    [
        lambda data, runs, rng: 987.5,
        lambda data, runs, rng: np.full(runs + 1, 987.5),
        lambda data, runs, rng: np.full((runs, 2, 2), 987.5),
        lambda data, runs, rng: np.empty((runs, 0)),
        lambda data, runs, rng: ["987.5"] * runs,
        lambda data, runs, rng: [None] * runs,
        lambda data, runs, rng: np.full(runs, 987.5 + 1j),
        lambda data, runs, rng: np.full((runs, 1 + data), 987.5),
        ragged,
        repeat(lambda data, rng: [987.5] * (1 + int(rng.random() < 0.5))),
    ],
)
def test_bad_mechanisms_are_refused_without_their_values(mechanism):
    with pytest.raises(InvalidInput, match="mechanism") as refusal:
        audit(mechanism, 0, 1, epsilon=1.0, runs=1000, rng=0)
    assert "987" not in str(refusal.value)
