"""Pooled releases in the hedged blend: own part off, what `apart` says, and hostile numbers.

Rows are up to 3 long and targets up to 50, so that a forgotten unit is a wrong number. Seeds are
fixed. With others, a right program would fail one of the statistical checks here about once in
10⁴ runs of this file: each is a mean of independent residuals that may be 4.5 standard errors off.
"""

import re
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from sudare.blending import HedgedBlend
from sudare.blending._groups import Spread, pooled
from sudare.blending._hedged import _records
from sudare.blending._pooled import Apart, apart_of
from sudare.blending._received import Pool, impossible, receive
from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import PureEvent
from sudare.foundations.randomness import Generator, seeded
from sudare.releases import Contract, PooledRelease, without

LABELS = Contract(features=3, row_norm=3.0, constant=0.7, classes=("no", "yes"))
NUMBERS = Contract(features=3, row_norm=3.0, constant=0.7, target_bound=50.0)
BARE = Contract(features=2, row_norm=0.4, classes=(7, 3))
CONTRACTS = pytest.mark.parametrize(
    "contract", [LABELS, NUMBERS, BARE], ids=["labels", "numbers", "bare"]
)
RADIUS, FEWEST = 0.5, 10
Table = tuple[Any, Any]


def draw(contract: Contract, n: int, rng: Generator, turn: float = 0.0) -> Table:
    """Rows, some of them too long, and targets; coefficients are turned by an angle."""
    table = 0.6 * contract.row_norm * rng.normal(size=(n, contract.features))
    theta = np.resize([2.0, -1.0, 1.5], contract.dimension) / contract.row_norm
    cos, sin = np.cos(turn), np.sin(turn)
    theta[:2] = np.array([[cos, -sin], [sin, cos]]) @ theta[:2]
    scores = contract.rows(table) @ theta
    if contract.classes is not None:
        second = rng.random(n) < 1 / (1 + np.exp(-1.5 * scores))
        return table, np.array(contract.classes)[second.astype(int)]
    return table, 12.0 * scores + 8.0 * rng.normal(size=n)


def naive_sums(contract: Contract, tables: list[Table]) -> dict[str, Any]:
    """Record by record."""
    p = contract.dimension
    cross, gram, squares, apart = np.zeros(p), np.zeros((p, p)), 0.0, 0.0
    for table, y in tables:
        mine = np.zeros(p)
        for row, target in zip(contract.rows(table), y, strict=True):
            x = row / np.hypot(contract.row_norm, contract.constant)
            if contract.classes is None:
                number = min(max(target, -50.0), 50.0) / 50.0
            else:
                number = 1.0 if target == contract.classes[1] else -1.0
            mine += number * x
            gram += np.outer(x, x)
            squares += number**2
        cross += mine
        if len(y) >= FEWEST:
            apart += min(float(np.sqrt(mine @ mine)), RADIUS * len(y)) ** 2 / len(y)
    return {
        "cross": cross,
        "gram": gram[np.triu_indices(p)],
        "squares": squares if contract.classes is None else None,
        "apart": apart,
    }


def pool_of(
    contract: Contract, tables: list[Table], noise_std: float = 0.0, seed: int = 0, **changes: Any
) -> PooledRelease:
    """With noise of this size; without any, a tiny one is stated."""
    rng, sums = seeded(seed), naive_sums(contract, tables)
    p = contract.dimension
    diagonal = np.where(np.equal(*np.triu_indices(p)), np.sqrt(2), 1.0)
    squares = sums["squares"]
    if squares is not None:
        squares = float(squares + np.sqrt(2) * noise_std * rng.normal())
    given: dict[str, Any] = {
        "party": "pool",
        "contract": contract,
        "n": sum(len(y) for _, y in tables),
        "event": PureEvent(1.0),
        "noise_std": noise_std or 1e-6,
        "cross": tuple((sums["cross"] + noise_std * rng.normal(size=p)).tolist()),
        "gram": tuple(sums["gram"] + noise_std * diagonal * rng.normal(size=len(diagonal))),
        "members": tuple(f"key {k}" for k in range(len(tables))),
        "sizes": tuple(len(y) for _, y in tables),
        "apart": float(sums["apart"] + 4 * noise_std * rng.normal()),
        "apart_noise_std": 4 * noise_std or 1e-6,
        "apart_rows": FEWEST,
        "apart_radius": RADIUS,
        "squares": squares,
    }
    return PooledRelease(**(given | changes))


def members(contract: Contract, seed: int = 0) -> list[Table]:
    """Four; the second has too few rows for `apart`, the third is longer than its radius."""
    rng = seeded(seed)
    tables = [draw(contract, n, rng) for n in (30, 7, 12, 25)]
    X, y = tables[2]
    second = 50.0 if contract.classes is None else contract.classes[1]
    tables[2] = np.tile(3 * X[0], (len(y), 1)), np.full(len(y), second)
    return tables


@CONTRACTS
@pytest.mark.parametrize("own", range(4))
def test_own_part_comes_off_exactly(contract: Contract, own: int) -> None:
    tables = members(contract)
    others = tables[:own] + tables[own + 1 :]
    for noise_std in (0.0, 2.5):
        whole = pool_of(contract, tables, noise_std)
        left = without(whole, f"key {own}", *tables[own])
        right = pool_of(contract, others, noise_std)  # the same noise: it is drawn by seed
        assert (left.n, left.sizes) == (right.n, right.sizes)
        assert left.members == tuple(f"key {k}" for k in range(4) if k != own)
        np.testing.assert_allclose(left.cross, right.cross, atol=1e-12)
        np.testing.assert_allclose(left.gram, right.gram, atol=1e-12)
        assert left.apart == pytest.approx(right.apart, abs=1e-12)
        assert left.squares == pytest.approx(right.squares, abs=1e-12)
        for name in ("party", "noise_std", "apart_noise_std", "contract", "event", "apart_radius"):
            assert getattr(left, name) == getattr(whole, name)
    assert receive([without(pool_of(contract, tables), f"key {own}", *tables[own])]).dropped == ()


def test_only_a_members_own_rows_come_off() -> None:
    tables = members(LABELS)
    whole = pool_of(LABELS, tables)
    X, y = tables[0]
    with pytest.raises(InvalidInput, match="a member of this pool"):
        without(whole, "key 9", X, y)
    with pytest.raises(InvalidInput, match="a member of this pool"):
        without(replace(whole, members=("key 0",) * 4), "key 0", X, y)
    with pytest.raises(InvalidInput, match="the 30 rows that went into the pool, found 29 and 29"):
        without(whole, "key 0", X[:-1], y[:-1])
    with pytest.raises(InvalidInput, match="found 30 and 29 targets"):
        without(whole, "key 0", X, y[:-1])
    with pytest.raises(InvalidInput, match="nothing would be left"):
        without(pool_of(LABELS, tables[:1]), "key 0", X, y)
    with pytest.raises(InvalidInput, match="3 columns"):
        without(whole, "key 0", X[:, :2], y)


SIZES = np.array([10.0, 15.0, 40.0, 40.0, 80.0, 25.0, 9.0, 3.0] * 5)


def residuals(
    between: float, supposed: float, radius: float, sigma: float, runs: int, seed: int
) -> Any:
    """Of A against its law, and their variances by it; all numbers drawn as it says, one by one."""
    rng = seeded(seed)
    p, n = 4, SIZES
    u, within = np.array([0.2, 0.6, 1.2, 2.0]), np.array([0.05, 0.1, 0.2, 0.3])
    mu, tau, q_std = np.array([0.3, -0.2, 0.1, 0.1]), 9.0, 0.2
    counted, rows = n >= 10, n.sum()
    square = float(mu @ mu + between * u.sum() + within.sum())
    found = []
    for _ in range(runs):
        truths = mu + np.sqrt(between * u) * rng.normal(size=(len(n), p))
        sums = n[:, None] * truths + np.sqrt(n[:, None] * within) * rng.normal(size=(len(n), p))
        lengths = np.minimum(np.sqrt((sums**2).sum(axis=1)), radius * n)
        apart = float((lengths[counted] ** 2 / n[counted]).sum()) + tau * rng.normal()
        mean = (sums.sum(axis=0) + sigma * rng.normal(size=p)) / rows
        pool = Pool(n, counted, apart, tau, radius, None)
        q = square + q_std * rng.normal()
        expected, variance = Apart(pool, mean, sigma / rows, u, within, q, q_std**2).law(supposed)
        found.append((apart - expected, variance))
    return np.transpose(found)


@pytest.mark.parametrize("between", [0.0, 0.01, 0.05])
@pytest.mark.parametrize(("radius", "sigma"), [(10.0, 6.0), (10.0, 80.0), (0.7, 6.0)])
def test_apart_has_the_law_that_is_used(between: float, radius: float, sigma: float) -> None:
    runs = 1000
    found, variances = residuals(between, between, radius, sigma, runs, seed=1)
    # Where the radius cuts lengths off, taking them for normal errs by up to a fifth of the
    # deviation, and what it takes off the variance is not counted in full.
    bias, least = (0.0, 0.8) if radius == 10 else (0.2, 0.45)
    std = np.sqrt(variances.mean())
    assert abs(found.mean()) < (4.5 / np.sqrt(runs) + bias) * std
    assert least < found.var() / variances.mean() < 1.2
    for wrong in (between + 0.03, 2 * between + 0.06):
        found, variances = residuals(between, wrong, radius, sigma, 200, seed=2)
        assert found.mean() < -0.5 * np.sqrt(variances.mean())


def suggested(contract: Contract, tables: list[Table], noise_std: float, seed: int) -> Apart:
    """What the blend reads from a pool of all but the first, whose rows are own."""
    release = without(pool_of(contract, tables, noise_std, seed), "key 0", *tables[0])
    held = receive([release]).moments
    own = _records(contract, *tables[0])
    x = contract.rows(np.concatenate([table for table, _ in tables])) / contract.full_norm
    second, axes = np.linalg.eigh(x.T @ x / len(x))
    size = 1.0 if contract.classes is not None else float((own.targets**2).mean())
    mean = held.cross[0] / held.n[0] @ axes
    return apart_of(held, 0, mean, second**2 / (second**2).mean(), size * second, own)


@pytest.mark.parametrize("contract", [LABELS, NUMBERS], ids=["labels", "numbers"])
@pytest.mark.parametrize("noise_std", [0.5, 40.0])
def test_the_mean_square_of_a_record_is_known_within_its_error(
    contract: Contract, noise_std: float
) -> None:
    """Rows of all lengths, and targets that are larger where rows are longer."""

    def varied(n: int, rng: Generator) -> Table:
        table, y = draw(contract, n, rng)
        lengths = rng.uniform(0, 0.5, n) if contract is LABELS else np.minimum(np.abs(y) / 40, 1)
        return contract.rows(table)[:, :3] * lengths[:, None], y

    rng = seeded(8)
    others = varied(800, rng)
    x = contract.rows(others[0]) / contract.full_norm
    y = contract.targets(others[1]) / (contract.target_bound or 1.0)
    truth = float(((y**2) * (x**2).sum(axis=1)).mean())
    exact, errors, expected = pool_of(contract, [others]), [], []
    for seed in range(200):
        own = _records(contract, *varied(60, rng))
        noisy = _with_noise(exact, noise_std, seed)
        held = receive([noisy]).moments
        said = apart_of(held, 0, held.cross[0] / 800, np.ones(4), np.ones(4), own)
        errors.append(said.square - truth)
        expected.append(said.square_error)
    assert 0.05 < truth < 0.5
    assert 0.6 < np.mean(np.square(errors)) / np.mean(expected) < 1.6


def _with_noise(exact: PooledRelease, noise_std: float, seed: int) -> PooledRelease:
    rng, p = seeded(seed), exact.contract.dimension
    diagonal = np.where(np.equal(*np.triu_indices(p)), np.sqrt(2), 1.0)
    gram = np.array(exact.gram) + noise_std * diagonal * rng.normal(size=len(diagonal))
    squares = exact.squares
    if squares is not None:
        squares += float(np.sqrt(2) * noise_std * rng.normal())
    return replace(exact, noise_std=noise_std, gram=tuple(gram.tolist()), squares=squares)


@CONTRACTS
def test_organisations_that_are_alike_look_alike(contract: Contract) -> None:
    """From rows to residuals in all units, sampling and noise of about the same size."""
    runs, found, apart = 60, [], []
    for seed in range(runs):
        rng = seeded(seed)
        tables = [draw(contract, n, rng) for n in [200, *range(8, 48)]]
        said = suggested(contract, tables, 0.5, seed)
        expected, variance = said.law(0.0)
        found.append((said.pool.apart - expected) / np.sqrt(variance))
        turned = [draw(contract, n, rng, rng.choice([-1.5, 1.5])) for n in range(8, 48)]
        said = suggested(contract, [tables[0], *turned], 0.5, seed)
        expected, variance = said.law(0.0)
        apart.append((said.pool.apart - expected) / np.sqrt(variance))
    assert abs(np.mean(found)) < 4.5 / np.sqrt(runs)
    assert 0.5 < np.std(found) < 1.5
    assert np.mean(apart) > 3


def test_what_is_read_from_apart_is_how_far_the_truths_are_apart() -> None:
    """Against the truths themselves, over many rows of each."""
    rng = seeded(3)
    tables = [draw(LABELS, 400, rng, turn) for turn in rng.normal(size=41)]
    said = suggested(LABELS, tables, 0.0, 3)
    sums = [naive_sums(LABELS, [table])["cross"] / 400 for table in tables[1:]]
    sampling = (said.square - np.square(np.mean(sums, axis=0)).sum()) / 400
    truths = np.var(sums, axis=0, ddof=1).sum() - sampling
    grid = truths / said.unit.sum() * np.linspace(0, 3, 301)
    likeliest = grid[np.argmax(said.likelihood(grid))] * said.unit.sum()
    assert truths > 0.02
    assert likeliest == pytest.approx(truths, rel=0.1)


def test_a_pool_varies_less_than_one_organisation() -> None:
    """Its truth is a mean of truths: by Σn²/N² of what one of them varies by."""
    one = Spread(np.zeros((1, 2)), np.full((1, 2), 0.1), np.array([0.5, 1.5]), np.full(2, 1e12))
    many = Spread(one.values, one.variances, one.unit, one.anything, np.array([0.25]))
    _, variance, _ = pooled(one, np.ones(1), 2.0)
    assert variance == pytest.approx([0.1 + 1, 0.1 + 3])
    _, variance, _ = pooled(many, np.ones(1), 2.0)
    assert variance == pytest.approx([0.1 + 0.25, 0.1 + 0.75])


def blended(release: PooledRelease, own: Table) -> Any:
    """How much weight goes to beliefs that others are alike, to others apart, and to own rows."""
    blend = HedgedBlend([release]).fit(*own)
    said = blend.explain()
    assert said.note is None
    assert said.dropped == ()
    names = blend.candidates_
    same = ("alike", "levels apart")
    pairs = zip(blend.weights_, names, strict=True)
    alike = sum(w for w, name in pairs if any(each in name for each in same))
    return alike, said.own_weight


def test_the_same_sums_count_for_less_where_members_differ() -> None:
    rng = seeded(11)
    tables = [draw(LABELS, 30, rng) for _ in range(50)]
    whole = pool_of(LABELS, tables, noise_std=1.0)
    near = without(whole, "key 0", *tables[0])
    # As far apart as one organisation's thirty rows leave it unsure, five times over.
    far = replace(near, apart=near.apart + 5 * 49 * 0.8)
    alike, own_weight = blended(near, tables[0])
    alike_far, own_weight_far = blended(far, tables[0])
    assert alike > 0.1
    assert alike_far < 0.001
    assert own_weight_far > own_weight + 0.2
    # Where the noise of the number hides it, it says nothing.
    hidden = [blended(replace(one, apart_noise_std=1e5), tables[0])[0] for one in (near, far)]
    assert hidden[0] == pytest.approx(hidden[1], abs=1e-3)
    assert alike_far < hidden[0] < alike


def test_organisations_that_differ_get_less_weight() -> None:
    weights = []
    for turn in (0.0, 1.2):
        found = []
        for seed in range(6):
            rng = seeded(seed)
            turns = turn * rng.choice([-1.0, 1.0], size=60)
            tables = [draw(LABELS, 40, rng, each) for each in turns]
            release = without(pool_of(LABELS, tables, 1.0, seed), "key 0", *tables[0])
            found.append(blended(release, tables[0]))
        weights.append(np.mean(found, axis=0))
    (alike, own_weight), (alike_far, own_weight_far) = weights
    assert alike > 0.2
    assert alike_far < 0.01
    assert own_weight_far > own_weight + 0.2


def test_numbers_are_blended_with_a_pool() -> None:
    points = []
    for seed in range(4):
        rng = seeded(seed)
        tables = [draw(NUMBERS, 12, rng) for _ in range(60)]
        new, truth = draw(NUMBERS, 2000, rng)
        release = without(pool_of(NUMBERS, tables, 1.0, seed), "key 0", *tables[0])
        own = HedgedBlend([], contract=NUMBERS).fit(*tables[0])
        blend = HedgedBlend([release]).fit(*tables[0])
        points.append(blend.score(new, truth) - own.score(new, truth))
    assert min(points) > 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        # 67 rows count, by a quarter each; the noise is 10.
        ({"apart": 67.0}, "how far its members differ is 67, from -50 to 66.8"),
        ({"apart": -51.0}, "how far its members differ is -51"),
        ({"apart": 1e300}, "how far its members differ is 1e.300"),
        ({"apart": -1e300}, "how far its members differ is -1e.300"),
        ({"apart": float("nan")}, "how far its members differ is nan"),
        ({"apart": float("inf")}, "how far its members differ is inf"),
        ({"apart_noise_std": 1e300}, "a noise of 1e.300, too large to compute with"),
        ({"sizes": (80, -7, 0, 1)}, "a member without rows"),
        ({"squares": float("nan")}, "Σy² is not a number"),
    ],
)
def test_impossible_pools_are_dropped_with_a_reason(changes: dict[str, Any], reason: str) -> None:
    release = pool_of(LABELS, members(LABELS), noise_std=2.5)
    assert impossible(release) is None
    bad = replace(release, **changes)
    found = impossible(bad)
    assert found is not None
    assert re.search(reason, found)
    table, y = draw(LABELS, 30, seeded(1))
    blend = HedgedBlend([bad], contract=LABELS).fit(table, y)
    assert [each.reason for each in blend.explain().dropped] == [found]
    assert blend.candidates_ == ("own model",)


def test_values_just_within_the_law_of_apart_are_kept() -> None:
    release = pool_of(LABELS, members(LABELS), noise_std=2.5)
    for apart in (66.7, -49.9):
        assert impossible(replace(release, apart=apart)) is None
    # Beyond a length of 1 no radius allows more: rows are at most that long.
    assert impossible(replace(release, apart=116.9, apart_radius=1e300)) is None
    assert impossible(replace(release, apart=117.1, apart_radius=1e300)) is not None


def hostile_pool(contract: Contract, rng: Generator) -> PooledRelease:
    """Any numbers that its own law allows, and some that it does not."""
    count = int(rng.choice([1, 2, 5, 40]))
    sizes = rng.choice([1, 2, 9, 10, 50, 10**7], size=count)
    n = int(sizes.sum())
    noise_std, apart_noise_std = (
        float(10.0 ** rng.choice([-300, -30, -3, 0, 2, 29])) for _ in "ab"
    )
    p = contract.dimension
    row = rng.normal(size=p)
    row /= np.linalg.norm(row)
    if contract.constant > 0:
        share = contract.constant / contract.full_norm
        row = np.append(row[:-1] / np.linalg.norm(row[:-1]) * np.sqrt(1 - share**2), share)
    noise = noise_std * rng.choice([0.0, 1.0]) * rng.uniform(-1, 1, size=(p, p))
    gram = n * np.outer(row, row) + (noise + noise.T) / 2
    radius = float(rng.choice([1e-300, 0.5, 1e300]))
    fewest = int(rng.choice([-5, 1, 10, 10**30]))
    counted = sum(int(size) for size in sizes if size >= fewest)
    within = float(min(radius, 1.0) ** 2 * counted * rng.choice([0.0, 0.3, 1.0]))
    apart = rng.choice([within, within + 4 * apart_noise_std, -4 * apart_noise_std, 1e300, -1e300])
    return PooledRelease(
        party="pool",
        contract=contract,
        n=n,
        event=PureEvent(1.0),
        noise_std=noise_std,
        cross=tuple((n * row * rng.choice([-1.0, 0.0, 1.0])).tolist()),
        gram=tuple(gram[np.triu_indices(p)].tolist()),
        members=tuple(f"key {k}" for k in range(count)),
        sizes=tuple(sizes.tolist()),
        apart=float(apart),
        apart_noise_std=apart_noise_std,
        apart_rows=fewest,
        apart_radius=radius,
        squares=None if rng.random() < 0.5 else float(rng.choice([0.0, n, -1e300, 1e300])),
    )


@CONTRACTS
def test_no_pool_makes_it_fail(contract: Contract) -> None:
    kept = 0
    for seed in range(60):
        rng = seeded(seed)
        release = hostile_pool(contract, rng)
        table, y = draw(contract, int(rng.integers(5, 30)), rng)
        table = table * rng.choice([0.0, 1e-200, 1.0, 1e200], p=[0.1, 0.1, 0.7, 0.1])
        blend = HedgedBlend([release], contract=contract).fit(table, y)
        kept += not blend.explain().dropped
        assert np.isfinite(blend.weights_).all(), seed
        assert np.isfinite(blend.components_).all(), seed
        note = blend.explain().note
        assert note is None or "one class" in note, seed  # it was computed
    assert kept > 20  # dropped ones would prove nothing
