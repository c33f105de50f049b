import math

import numpy as np

from sudare.blending import receive
from sudare.demo._pool import simulated_pool
from sudare.foundations.gaussian import gaussian_mu
from sudare.foundations.privacy import account
from sudare.foundations.randomness import seeded
from sudare.releases import Contract, PooledRelease, without

CONTRACT = Contract(features=2, row_norm=3.0, constant=0.75, classes=(-1.0, 1.0))
EPSILON, DELTA = 2.0, 1e-6


def parties() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = seeded(1)
    rows = [rng.normal(size=(n, 2)) for n in (30, 40, 50, 60, 70)]
    return [(table, np.where(table[:, 0] > 0, 1.0, -1.0)) for table in rows]


def pool(seed: int) -> PooledRelease:
    return simulated_pool(parties(), CONTRACT, EPSILON, DELTA, seeded(seed))


def test_a_seed_draws_the_same_sum_whatever_the_keys() -> None:
    first, again, other = pool(2), pool(2), pool(3)
    assert first.cross == again.cross
    assert first.gram == again.gram
    assert first.cross != other.cross
    assert first.members != again.members


def test_it_is_the_sum_of_all_rows_with_the_noise_of_three_of_five() -> None:
    made = pool(2)
    assert made.simulated
    assert made.sizes == (30, 40, 50, 60, 70)
    assert account([made.event], DELTA).epsilon() <= EPSILON
    one = 2 / gaussian_mu(EPSILON, DELTA)  # of a single release: a row moves it by 2
    assert 1.0 < made.noise_std / (one * math.sqrt(5 / 3)) < 1.1
    exact = sum(y @ (CONTRACT.rows(x) / CONTRACT.full_norm) for x, y in parties())
    draws = np.array([pool(seed).cross_vector - exact for seed in range(20)]) / made.noise_std
    # 60 squares of standard normals: outside of this twice in 10⁶ choices of seeds.
    assert 20 < (draws**2).sum() < 125


def test_the_first_party_is_the_first_member() -> None:
    made, own = pool(2), parties()[0]
    rest = without(made, made.members[0], *own)
    assert rest.n == 220
    assert not receive([rest]).dropped
