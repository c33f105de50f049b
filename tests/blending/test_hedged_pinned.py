"""The hedged blend against its naive form, in units far from one, and what may not change it.

Rows are up to 3 long and targets up to 50, so that a forgotten unit is a wrong number.
"""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from sklearn.exceptions import NotFittedError

from sudare.blending._hedged import HedgedBlend
from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import PureEvent
from sudare.foundations.randomness import Generator, seeded
from sudare.releases import Contract, LearnerRelease, MomentsRelease, Release
from tests.blending import naive
from tests.blending.parties import learner

LABELS = Contract(features=3, row_norm=3.0, constant=0.7, classes=("no", "yes"))
NUMBERS = Contract(features=3, row_norm=3.0, constant=0.7, target_bound=50.0)
BARE = Contract(features=2, row_norm=3.0, target_bound=50.0)
BARE_LABELS = Contract(features=2, row_norm=0.4, classes=(7, 3))
CONTRACTS = pytest.mark.parametrize(
    "contract",
    [LABELS, NUMBERS, BARE, BARE_LABELS],
    ids=["labels", "numbers", "bare", "bare labels"],
)


def truth(contract: Contract) -> Any:
    """Scores of about two either way, or targets of about half their bound."""
    theta = np.resize([2.0, -1.0, 1.5], contract.dimension) / contract.row_norm
    return theta * (1.5 if contract.target_bound is None else contract.target_bound / 4)


def draw(contract: Contract, n: int, rng: Generator, scale: Any = 1.0) -> tuple[Any, Any]:
    """Rows, some of them too long, and their targets."""
    table = scale * contract.row_norm * 0.6 * rng.normal(size=(n, contract.features))
    table += 0.15 * contract.row_norm
    scores = contract.rows(table) @ truth(contract)
    if contract.classes is not None:
        second = rng.random(n) < 1 / (1 + np.exp(-scores))
        return table, np.array(contract.classes)[second.astype(int)]
    assert contract.target_bound is not None
    return table, scores + 0.15 * contract.target_bound * rng.normal(size=n)


def sums(party: str, contract: Contract, n: int, seed: int, noise_std: float) -> MomentsRelease:
    """Moments of rows whose columns vary more at some parties than at others."""
    rng = seeded(seed)
    scale = rng.uniform(0.3, 1.7, size=contract.features)
    table, y = draw(contract, n, rng, scale)
    x = contract.rows(table) / contract.full_norm
    noise = noise_std * rng.normal(size=(contract.dimension, contract.dimension))
    gram = x.T @ x + np.triu(noise, 1) + np.sqrt(2) * np.diag(np.diag(noise))
    targets = contract.targets(y) / (contract.target_bound or 1.0)
    return MomentsRelease(
        party=party,
        contract=contract,
        n=n,
        event=PureEvent(1.0),
        noise_std=noise_std,
        cross=tuple(x.T @ targets + noise_std * rng.normal(size=contract.dimension)),
        gram=tuple(gram[np.triu_indices(contract.dimension)]),
    )


def many_sums(contract: Contract, many: int, n: int = 90) -> list[MomentsRelease]:
    return [sums(f"M{k}", contract, n + 7 * k, 30 + k, 2.0 + 0.3 * k) for k in range(many)]


def many_learners(
    contract: Contract, many: int, *, turn: float = 1.0, std: float = 0.1
) -> list[LearnerRelease]:
    """Near the truth, or turned; the last lies a little outside its ball."""
    rng, theta = seeded(8), turn * truth(contract)
    size = float(np.linalg.norm(theta))
    pile = []
    for k in range(many):
        noise_std = std * size * (1 + 0.2 * k)
        near = theta + noise_std * rng.normal(size=len(theta))
        length = float(np.linalg.norm(near))
        radius = 0.99 * length if k == many - 1 else 3 * length
        pile.append(
            learner(
                f"L{k}",
                near,
                contract,
                n=40 + 30 * k,
                noise_std=noise_std,
                radius=radius,
                slack=0.05 * length,
            )
        )
    return pile


def piles(contract: Contract) -> dict[str, list[Release]]:
    few, several = many_learners(contract, 4), many_sums(contract, 6)
    turned = [replace(r, party=f"T{r.party}") for r in many_learners(contract, 5, turn=-1.0)]
    stray = replace(turned[0], coefficients=tuple(-3 * r for r in turned[0].coefficients))
    return {
        "learners": [*few],
        "moments": [*several],
        "both": [*few, *several],
        "a stray": [*many_learners(contract, 6), replace(stray, radius=1e4)],
        "groups": [*many_learners(contract, 6), *turned],
        "three groups tried": [*many_sums(contract, 16)],
    }


WHICH = ["learners", "moments", "both", "a stray", "groups", "three groups tried"]


def fitted(contract: Contract, pile: list[Release], n: int = 14) -> tuple[HedgedBlend, Any, Any]:
    table, y = draw(contract, n, seeded(1))
    if contract.target_bound is not None:
        y[0] = 2 * contract.target_bound
    return HedgedBlend(pile, contract=contract).fit(table, y), table, y


@pytest.mark.parametrize(
    ("contract", "which"),
    [(c, w) for c in (LABELS, NUMBERS) for w in WHICH]
    + [(c, w) for c in (BARE, BARE_LABELS) for w in ("both", "groups")],
    ids=str,
)
def test_it_is_its_naive_form(contract: Contract, which: str) -> None:
    """Candidates, weights, coefficients and all that `explain` says, each computed again."""
    pile = piles(contract)[which]
    found, table, y = fitted(contract, pile)
    right = naive.blend(contract, pile, table, y)
    assert found.candidates_ == tuple(each.name for each in right.candidates)
    np.testing.assert_allclose(found.weights_, right.weights, rtol=2e-4, atol=1e-9)
    thetas = np.array([each.theta for each in right.candidates])
    close = 1e-5 * np.abs(thetas).max()
    np.testing.assert_allclose(found.components_, thetas, rtol=1e-4, atol=close)

    said = found.explain()
    order = [0, *(1 + np.argsort(-found.weights_[1:], kind="stable"))]
    named = [(right.candidates[k].name, found.weights_[k]) for k in order]
    assert [(each.name, each.weight) for each in said.candidates] == named
    near = 1e-4 * right.own_loss
    assert said.gain.own == pytest.approx(right.own_loss, abs=near)
    assert said.gain.estimate == pytest.approx(right.gain, abs=near)
    assert said.gain.low == pytest.approx(right.gain - right.error, abs=near)
    assert said.gain.high == pytest.approx(right.gain + right.error, abs=near)
    pairs = list(zip(right.weights, right.candidates, strict=True))
    influences = {
        release.party: sum(weight * each.shares.get(release.party, 0.0) for weight, each in pairs)
        for release in pile
    }
    assert {each.party: each.influence for each in said.releases} == pytest.approx(
        influences, abs=1e-4
    )
    assert {each.party: each.doubt for each in said.releases} == pytest.approx(
        right.doubts, abs=1e-4
    )
    falling = [each.influence for each in said.releases]
    assert falling == sorted(falling, reverse=True)


def test_the_cases_above_are_of_many_kinds() -> None:
    """Blends with and without the releases, a gain and none, a stray and groups."""
    found = {(c, w): fitted(c, piles(c)[w])[0] for c in (LABELS, NUMBERS) for w in WHICH}
    own = [blend.weights_[0] for blend in found.values()]
    assert min(own) < 0.15
    assert max(own) > 0.11
    gains = [blend.explain().gain.estimate for blend in found.values()]
    assert min(gains) < 0.1
    assert max(gains) > 0.01
    doubts = [r.doubt for r in found[NUMBERS, "a stray"].explain().releases]
    assert max(doubts) > 0.5
    for contract in (LABELS, NUMBERS):
        weights = found[contract, "groups"].explain().candidates[1:]
        assert any("group" in each.name for each in weights[:4])


@pytest.mark.parametrize("contract", [LABELS, NUMBERS], ids=["labels", "numbers"])
def test_learners_alone_move_predictions_their_way(contract: Contract) -> None:
    """Own rows say little; four learners that agree decide, as fits and as received."""
    rng = seeded(4)
    table = 0.4 * contract.row_norm * rng.normal(size=(10, 3))
    y: Any = np.array(["yes", "no"] * 5)
    if contract.target_bound is not None:
        y = 0.3 * contract.target_bound * rng.normal(size=10)
    along = np.array([[0.9, 0.0, 0.0]]) * contract.row_norm

    def second(pile: list[Release]) -> tuple[float, HedgedBlend]:
        blend = HedgedBlend(pile, contract=contract).fit(table, y)
        said = blend.predict(along) if contract is NUMBERS else blend.predict_proba(along)[:, 1]
        return float(said[0]), blend

    size = 0.5 if contract is LABELS else 2.0
    up, down = (
        [
            learner(f"L{k}", (sign * size, 0, 0, 0), contract, n=500, noise_std=0.05, radius=40.0)
            for k in range(4)
        ]
        for sign in (1, -1)
    )
    alone, _ = second([])
    higher, blend = second(list(up))
    lower, _ = second(list(down))
    assert higher > alone
    assert lower < alone
    weights = dict(zip(blend.candidates_, blend.weights_, strict=True))
    assert weights["learners of all, alike"] > 0.3
    assert all(weights[f"learner of L{k} as received"] > 0.001 for k in range(4))


def rescaled(release: Release, contract: Contract, factor: float) -> Release:
    """The same release where coefficients are so many times as large; moments have no units."""
    if isinstance(release, MomentsRelease):
        return replace(release, contract=contract)
    return replace(
        release,
        contract=contract,
        coefficients=tuple(factor * c for c in release.coefficients),
        radius=factor * release.radius,
        slack=factor * release.slack,
        noise_std=factor * release.noise_std,
    )


@pytest.mark.parametrize("contract", [LABELS, NUMBERS], ids=["labels", "numbers"])
@pytest.mark.parametrize("which", ["both", "groups"])
def test_units_of_rows_and_targets_change_nothing(contract: Contract, which: str) -> None:
    pile = piles(contract)[which]
    one, table, y = fitted(contract, pile)
    rows, targets = 40.0, 0.02 if contract is NUMBERS else 1.0
    other = replace(contract, row_norm=rows * contract.row_norm, constant=rows * contract.constant)
    if contract.target_bound is not None:
        other = replace(other, target_bound=targets * contract.target_bound)
        y = targets * y
    moved = [rescaled(release, other, targets / rows) for release in pile]
    two = HedgedBlend(moved).fit(rows * table, y)
    new, _ = draw(contract, 30, seeded(2))
    np.testing.assert_allclose(two.weights_, one.weights_, rtol=1e-6, atol=1e-12)
    if contract is LABELS:
        np.testing.assert_allclose(two.predict_proba(rows * new), one.predict_proba(new), rtol=1e-6)
    else:
        np.testing.assert_allclose(two.predict(rows * new), targets * one.predict(new), rtol=1e-6)
    gains = one.explain().gain, two.explain().gain
    assert gains[1].own == pytest.approx(targets**2 * gains[0].own, rel=1e-6)
    assert gains[1].estimate == pytest.approx(targets**2 * gains[0].estimate, rel=1e-5)


def test_the_order_of_labels_changes_nothing() -> None:
    """The other label as +1: coefficients and Σyx change their sign, and nothing else does."""
    pile = piles(LABELS)["both"]
    one, table, y = fitted(LABELS, pile)
    other = replace(LABELS, classes=("yes", "no"))
    turned: list[Release] = []
    for release in pile:
        if isinstance(release, LearnerRelease):
            negative = tuple(-c for c in release.coefficients)
            turned.append(replace(release, contract=other, coefficients=negative))
        else:
            turned.append(replace(release, contract=other, cross=tuple(-c for c in release.cross)))
    two = HedgedBlend(turned).fit(table, y)
    new, _ = draw(LABELS, 30, seeded(2))
    np.testing.assert_array_equal(two.predict(new), one.predict(new))
    np.testing.assert_allclose(two.predict_proba(new)[:, ::-1], one.predict_proba(new), rtol=1e-7)
    assert two.explain().gain.estimate == pytest.approx(one.explain().gain.estimate, rel=1e-7)


@CONTRACTS
def test_the_order_of_releases_changes_only_their_order(contract: Contract) -> None:
    pile = piles(contract)["both"]
    one, table, y = fitted(contract, pile)
    two = HedgedBlend(pile[::-1]).fit(table, y)
    weights = [dict(zip(b.candidates_, b.weights_, strict=True)) for b in (one, two)]
    assert weights[1] == pytest.approx(weights[0], rel=1e-6, abs=1e-12)
    influences = [{r.party: r.influence for r in b.explain().releases} for b in (one, two)]
    assert influences[1] == pytest.approx(influences[0], rel=1e-6, abs=1e-12)


def test_an_unfitted_blend_explains_nothing() -> None:
    with pytest.raises(NotFittedError):
        HedgedBlend(many_learners(LABELS, 2)).explain()


def test_five_own_rows_are_enough_and_four_are_not() -> None:
    table, y = draw(NUMBERS, 5, seeded(3))
    pile = many_learners(NUMBERS, 2)
    assert np.isfinite(HedgedBlend(pile).fit(table, y).predict(table)).all()
    with pytest.raises(InvalidInput, match="at least 5 rows"):
        HedgedBlend(pile).fit(table[:4], y[:4])
