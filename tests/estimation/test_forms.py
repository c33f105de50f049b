import msgspec
import numpy as np
import pytest

from sudare.estimation import NoisySums
from sudare.estimation._forms import Form, added
from sudare.foundations import checks
from sudare.foundations.privacy import PureEvent
from sudare.foundations.randomness import seeded
from sudare.learners import MomentsClassifier
from sudare.pooling import pooled_release
from sudare.releases import Contract, LearnerRelease, MomentsRelease
from tests.pooling.pools import CLASSES, NUMBERS, Pool, parties, plan

# Bounds far from 1: a wrong unit shows.
CONTRACT = Contract(features=2, row_norm=3.0, constant=0.75, target_bound=50.0)


def release(party: str, seed: int, noise_std: float = 1e-9) -> MomentsRelease:
    rng = seeded(seed)
    rows = CONTRACT.rows(rng.standard_normal((30, 2))) / CONTRACT.full_norm
    y = rng.uniform(-1, 1, 30)
    gram = rows.T @ rows
    return MomentsRelease(
        party=party,
        contract=CONTRACT,
        n=30,
        event=PureEvent(1.0),
        noise_std=noise_std,
        cross=tuple((y @ rows).tolist()),
        gram=tuple(gram[np.triu_indices(3)].tolist()),
    )


def test_the_moments_are_in_the_contracts_units() -> None:
    rng = seeded(0)
    table, y = rng.standard_normal((30, 2)), rng.uniform(-1, 1, 30)
    rows = CONTRACT.rows(table)
    unit = rows / CONTRACT.full_norm
    squares = float(y @ y)
    sums = NoisySums(CONTRACT, 30, y @ unit, unit.T @ unit, squares, 2.0)
    z = np.column_stack([rows, 50.0 * y])
    np.testing.assert_allclose(sums.moments, z.T @ z / 30, rtol=1e-12)
    assert sums.constant == 2
    assert sums.target == 3
    norm = CONTRACT.full_norm
    assert sums.noise[0, 1] == pytest.approx(2.0 * norm**2 / 30)
    assert sums.noise[1, 1] == pytest.approx(2.0 * norm**2 / 30 * np.sqrt(2))
    assert sums.noise[1, 3] == pytest.approx(2.0 * norm * 50 / 30)
    assert sums.noise[3, 3] == pytest.approx(2.0 * 50**2 / 30 * np.sqrt(2))


def test_classes_have_squares_without_noise() -> None:
    contract = msgspec.structs.replace(CONTRACT, target_bound=None, classes=("no", "yes"))
    sums = NoisySums(contract, 5, np.zeros(3), np.zeros((3, 3)), None, 1.0)
    assert sums.moments[3, 3] == 1.0
    assert sums.noise[3, 3] == 0.0


def test_releases_add_up_and_their_noises_in_quadrature() -> None:
    pair = [release("A", 1, 3.0), release("B", 2, 4.0)]
    sums = NoisySums.of(pair)
    assert sums.n == 60
    assert sums.noise_std == pytest.approx(5.0)
    np.testing.assert_allclose(sums.cross, pair[0].cross_vector + pair[1].cross_vector)
    np.testing.assert_allclose(sums.gram, pair[0].gram_matrix + pair[1].gram_matrix)
    assert sums.squares is None
    assert np.isnan(sums.moments[3, 3])


@pytest.mark.parametrize("contract", [CLASSES, NUMBERS])
def test_a_pooled_release_is_read_like_any_other(contract: Contract) -> None:
    members = parties(3, contract)
    pooled = pooled_release(Pool(members, plan(members, contract, epsilon=20.0)).run())
    sums = NoisySums.of([pooled])
    rows = np.vstack([contract.rows(each.table) for each in members])
    y = np.concatenate([each.targets for each in members])
    z = np.column_stack([rows, y])
    assert sums.n == len(y)
    # Nine standard deviations of real noise: sixteen numbers pass them with probability 1e-17.
    assert np.all(np.abs(sums.moments - z.T @ z / len(y)) <= 9 * sums.noise + 1e-9)
    with pytest.raises(checks.InvalidInput, match="every organisation once"):
        NoisySums.of([pooled, msgspec.structs.replace(pooled, party="again")])


def test_what_cannot_be_added_up_is_refused() -> None:
    with pytest.raises(checks.InvalidInput, match="at least one"):
        NoisySums.of([])
    with pytest.raises(checks.InvalidInput, match="every organisation once"):
        NoisySums.of([release("A", 1), release("A", 2)])
    other = MomentsClassifier(1.0, row_norm=3.0, rng=1)
    other.fit(seeded(1).standard_normal((9, 2)), [0, 1, 0, 1, 0, 1, 0, 1, 0])
    with pytest.raises(checks.InvalidInput, match="one contract"):
        NoisySums.of([release("A", 1), other.release("B")])
    model = LearnerRelease(
        party="C", contract=CONTRACT, n=3, event=PureEvent(1.0), noise_std=1.0,
        coefficients=(0.0, 0.0, 0.0), radius=1.0, slack=0.0,
    )  # fmt: skip
    with pytest.raises(checks.InvalidInput, match="hold no sums"):
        NoisySums.of([model])


def test_forms_are_linear_and_so_is_their_noise() -> None:
    sums = NoisySums.of([release("A", 1, 2.0)])
    first, second = Form(1.0, {(0, 1): 2.0, (1, 1): 3.0}), Form(0.5, {(0, 1): -1.0})
    both = first - second * 2.0
    assert both.weights == {(0, 1): 4.0, (1, 1): 3.0}
    assert both.offset == 0.0
    assert sums.value(both) == pytest.approx(sums.value(first) - 2 * sums.value(second))
    # The law of the noise, drawn.
    noise = sums.noise * seeded(3).standard_normal((200_000, 4, 4))
    drawn = [
        sum(w * noise[:, i, j] for (i, j), w in form.weights.items()) for form in (first, second)
    ]
    covariance = np.cov(np.array(drawn))
    assert sums.variance(first) == pytest.approx(covariance[0, 0], rel=0.03)
    assert sums.covariance(first, second) == pytest.approx(covariance[0, 1], rel=0.03)
    assert sums.covariance(Form(0.0, {(0, 0): 1.0}), second) == 0.0
    assert added([first, second]) == first + second


def test_of_two_forms_for_one_number_the_best_mean_is_taken() -> None:
    sums = NoisySums.of([release("A", 1, 2.0)])
    first, second = Form(0.0, {(0, 1): 1.0}), Form(0.0, {(1, 1): 1.0})
    best = sums.variance(sums.combined(first, second))
    shares = np.linspace(0, 1, 1001)
    others = [sums.variance(first * float(s) + second * float(1 - s)) for s in shares]
    assert best == pytest.approx(min(others), rel=1e-5)
