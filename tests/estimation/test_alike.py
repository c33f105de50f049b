"""Whether a pool says that its organisations differ: rarely by chance, and if they truly do."""

import numpy as np

from sudare.estimation import alike
from sudare.foundations.privacy import GaussianEvent
from sudare.foundations.randomness import Generator, seeded
from sudare.releases import Contract, PooledRelease
from tests.statistical import rate_at_most

RADIUS, FEWEST = 0.5, 10


def pool(
    apart: float, noise_std: float, rng: Generator, *, target: float | None = None
) -> PooledRelease:
    """Twelve organisations of unequal sizes, one too small to count; baselines differ by `apart`
    standard normal numbers on the scale of scores."""
    classes = ("no", "yes") if target is None else None
    contract = Contract(
        features=3, row_norm=2.0, constant=0.5, classes=classes, target_bound=target
    )
    sizes = np.array([8, 60, 90, 120, 200, 300, 300, 400, 500, 600, 800, 1500])
    cross, gram, squares, total = np.zeros(4), np.zeros((4, 4)), 0.0, 0.0
    for n in sizes:
        table = rng.standard_normal((n, 3))
        rows = contract.rows(table) / contract.full_norm
        scores = table @ [1.0, -0.5, 0.2] + apart * rng.standard_normal()
        if target is None:
            y = np.where(scores + rng.logistic(0, 1, n) > 0, 1.0, -1.0)
        else:
            y = np.clip(0.2 * scores + 0.2 * rng.standard_normal(n), -1, 1)
        own = y @ rows
        cross, gram, squares = cross + own, gram + rows.T @ rows, squares + float(y @ y)
        total += min(float(np.linalg.norm(own)), RADIUS * n) ** 2 / n if n >= FEWEST else 0.0
    noise = noise_std * rng.standard_normal((4, 4))
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.sqrt(2) * np.diag(np.diag(noise))
    return PooledRelease(
        party="pool",
        contract=contract,
        n=int(sizes.sum()),
        event=GaussianEvent(0.5),
        noise_std=noise_std,
        cross=tuple((cross + noise_std * rng.standard_normal(4)).tolist()),
        gram=tuple((gram + noise)[np.triu_indices(4)].tolist()),
        members=tuple(map(str, range(12))),
        sizes=tuple(sizes.tolist()),
        apart=total + 4 * noise_std * float(rng.standard_normal()),
        apart_noise_std=4 * noise_std,
        apart_rows=FEWEST,
        apart_radius=RADIUS,
        squares=None if target is None else squares + np.sqrt(2) * noise_std * rng.normal(),
        simulated=True,
    )


def test_organisations_that_are_alike_are_rarely_said_to_differ() -> None:
    for target in (None, 50.0):
        rng = seeded(1)
        found = [alike(pool(0.0, 3.0, rng, target=target)) for _ in range(300)]
        differing = sum(each.differ for each in found)
        assert differing <= 3
        assert rate_at_most(differing, 300) < 0.2
        # The stated standard deviation is no smaller than what it stands for.
        excess = np.array([each.excess for each in found])
        assert excess.mean() < 0.2 * found[0].std
        assert excess.std() < 1.15 * found[0].std


def test_organisations_that_differ_are_found_out_unless_the_noise_hides_it() -> None:
    rng = seeded(2)
    assert sum(alike(pool(1.5, 0.5, rng)).differ for _ in range(50)) >= 45
    assert sum(alike(pool(1.5, 0.5, rng, target=50.0)).differ for _ in range(50)) >= 30
    assert sum(alike(pool(1.5, 60.0, rng)).differ for _ in range(50)) <= 5
