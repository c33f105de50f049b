"""The hedged blend: weights, determinism, what it says of itself, and errors for bad input."""

from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor

from sudare.blending._explain import Explanation
from sudare.blending._hedged import LEAST_OWN, HedgedBlend
from sudare.foundations.checks import InvalidInput, PrivacyError
from sudare.foundations.randomness import seeded
from sudare.releases import Contract
from tests.blending.parties import (
    CLASSES,
    NUMBERS,
    learner,
    moments,
    rows_and_targets,
    some_learners,
)

CONTRACTS = pytest.mark.parametrize("contract", [CLASSES, NUMBERS], ids=["classes", "numbers"])


def mixed(contract: Contract, many: int = 12) -> list[Any]:
    pile = [moments(f"M{k}", contract, seed=k) for k in range(many)]
    return [*pile, *some_learners(contract, 4)]


def fitted(contract: Contract, releases: Any = None, n: int = 40, seed: int = 50) -> HedgedBlend:
    table, y, _ = rows_and_targets(contract, n, seed)
    given = mixed(contract) if releases is None else releases
    return HedgedBlend(given, contract=contract).fit(table, y)


@CONTRACTS
def test_it_is_an_estimator_of_the_contracts_kind(contract: Contract) -> None:
    blend = fitted(contract)
    assert is_classifier(blend) == (contract is CLASSES)
    assert is_regressor(blend) == (contract is NUMBERS)
    table, y, _ = rows_and_targets(contract, 500, 60)
    assert blend.predict(table).shape == (500,)
    assert blend.score(table, y) > 0.7
    assert clone(blend).get_params().keys() == {"releases", "contract"}
    if contract is CLASSES:
        np.testing.assert_allclose(blend.predict_proba(table).sum(axis=1), 1)
        assert set(blend.predict(table)) == {"no", "yes"}


@CONTRACTS
def test_every_candidate_has_a_kind(contract: Contract) -> None:
    """What others sort candidates by; their names are for people."""
    said = fitted(contract).explain()
    assert said.candidates[0].kind == "own"
    assert {each.kind for each in said.candidates} >= {"own", "together"}
    for each in said.candidates:
        assert (each.kind == "received") == each.name.endswith("as received")
        assert (each.kind == "group") == (" group " in each.name)


@CONTRACTS
def test_weights_lie_on_the_simplex(contract: Contract) -> None:
    blend = fitted(contract)
    assert blend.weights_.min() >= 0
    assert blend.weights_.sum() == pytest.approx(1)
    assert blend.weights_[0] >= LEAST_OWN
    assert len(blend.weights_) == len(blend.components_) == len(blend.candidates_)
    assert blend.components_.shape[1] == contract.dimension
    assert blend.candidates_[0] == "own model"


@CONTRACTS
def test_vague_releases_change_next_to_nothing(contract: Contract) -> None:
    vague = [moments(f"M{k}", contract, seed=k, noise_std=1e4) for k in range(12)]
    blend, alone = fitted(contract, vague), fitted(contract, [])
    table, _, _ = rows_and_targets(contract, 200, 64)
    predict = "predict_proba" if contract is CLASSES else "predict"
    both = [getattr(model, predict)(table) for model in (blend, alone)]
    assert np.abs(both[0] - both[1]).mean() < 0.03 * np.abs(both[1]).mean()
    assert blend.weights_[0] > 0.5
    assert not blend.explain().helped


@CONTRACTS
def test_predictions_are_mixtures(contract: Contract) -> None:
    blend = fitted(contract)
    table, _, _ = rows_and_targets(contract, 30, 61)
    scores = contract.rows(table) @ blend.components_.T
    if contract is CLASSES:
        second = (1 / (1 + np.exp(-scores))) @ blend.weights_
        np.testing.assert_allclose(blend.predict_proba(table)[:, 1], second, rtol=1e-9)
        odds = blend.decision_function(table)
        np.testing.assert_allclose(odds, np.log(second / (1 - second)), rtol=1e-9)
    else:
        mixed_scores = np.clip(scores, -2.0, 2.0) @ blend.weights_
        np.testing.assert_allclose(blend.predict(table), mixed_scores, rtol=1e-9)


@CONTRACTS
def test_nothing_is_random_and_order_does_not_matter(contract: Contract) -> None:
    table, y, _ = rows_and_targets(contract, 40, 50)
    pile = mixed(contract)
    turned = [pile[k] for k in seeded(0).permutation(len(pile))]
    one, again, other = (HedgedBlend(p).fit(table, y) for p in (pile, pile, turned))
    np.testing.assert_array_equal(one.weights_, again.weights_)
    new, _, _ = rows_and_targets(contract, 30, 62)
    predict = "predict_proba" if contract is CLASSES else "predict"
    np.testing.assert_allclose(getattr(other, predict)(new), getattr(one, predict)(new), atol=1e-6)
    influences = [{r.party: r.influence for r in b.explain().releases} for b in (one, other)]
    assert influences[0] == pytest.approx(influences[1], abs=1e-6)


@CONTRACTS
def test_order_of_rows_does_not_matter(contract: Contract) -> None:
    table, y, _ = rows_and_targets(contract, 40, 50)
    turned = seeded(1).permutation(40)
    one = HedgedBlend(mixed(contract)).fit(table, y)
    other = HedgedBlend(mixed(contract)).fit(table[turned], y[turned])
    np.testing.assert_allclose(other.weights_, one.weights_, atol=1e-7)


@CONTRACTS
def test_without_releases_it_is_the_own_model_and_says_so(contract: Contract) -> None:
    blend = fitted(contract, [])
    assert blend.candidates_ == ("own model",)
    assert blend.weights_ == pytest.approx([1.0])
    said = blend.explain()
    assert said.verdict == "No releases were given: this is the own model."
    assert not said.helped
    assert (said.gain.low, said.gain.estimate, said.gain.high) == (0, 0, 0)
    assert blend.parties_ == ()
    table, y, _ = rows_and_targets(contract, 2000, 63)
    assert blend.score(table, y) > 0.6


def test_without_releases_and_contract_there_is_nothing_to_go_by() -> None:
    table, y, _ = rows_and_targets(CLASSES, 40)
    with pytest.raises(InvalidInput, match="at least one release, or a contract"):
        HedgedBlend().fit(table, y)


def test_explanations_add_up() -> None:
    said = fitted(CLASSES).explain()
    assert isinstance(said, Explanation)
    assert sum(c.weight for c in said.candidates) == pytest.approx(1)
    assert said.candidates[0].name == "own model"
    weights = [c.weight for c in said.candidates[1:]]
    assert weights == sorted(weights, reverse=True)
    assert len(said.releases) == 16
    total = sum(r.influence for r in said.releases)
    assert total + said.own_weight == pytest.approx(1)
    assert said.gain.low < said.gain.estimate < said.gain.high
    text = str(said)
    for part in ("Weight", "own model", "Influence", "log loss a row", said.verdict):
        assert part in text
    with pytest.raises(AttributeError):
        said.gain = None  # type: ignore[misc,assignment]


def test_gains_are_in_the_targets_units() -> None:
    gain = fitted(NUMBERS).explain().gain
    assert gain.loss == "squared error"
    assert 0.01 < gain.own < 0.2  # noise of standard deviation 0.2, and what 40 rows leave open


def test_hostile_releases_are_named() -> None:
    """Impossible ones are dropped with a reason; possible ones that fit nobody are doubted."""
    pile = [moments(f"M{k}", seed=k, n=400) for k in range(12)]
    huge = msgspec.structs.replace(
        pile[0], party="Mallory", cross=tuple(100 * c for c in pile[0].cross)
    )
    stray = msgspec.structs.replace(pile[1], party="Stray", cross=(0.0, 0.0, 350.0, 0.0))
    said = fitted(CLASSES, [*pile, huge, stray]).explain()
    (dropped,) = said.dropped
    assert dropped.party == "Mallory"
    assert "Σyx" in dropped.reason
    assert "Mallory" not in {r.party for r in said.releases}
    doubts = {r.party: r.doubt for r in said.releases}
    assert doubts.pop("Stray") > 0.99
    assert max(doubts.values()) < 0.1
    assert "Stray" in str(said).split("Unlike all others")[1]
    assert "Mallory: Σyx" in str(said)


def test_only_impossible_releases_leave_the_own_model() -> None:
    bad = learner("Mallory", [1e6, 0, 0, 0])
    blend = fitted(CLASSES, [bad])
    assert blend.explain().verdict == "No release could be used: this is the own model."
    np.testing.assert_array_equal(blend.components_, fitted(CLASSES, []).components_)


def test_bad_input_is_refused_in_words() -> None:
    table, y, _ = rows_and_targets(CLASSES, 40)
    pile = mixed(CLASSES)
    with pytest.raises(InvalidInput, match="at least 5 rows of your own"):
        HedgedBlend(pile).fit(table[:4], y[:4])
    with pytest.raises(InvalidInput, match="only the two labels of the contract"):
        HedgedBlend(pile).fit(table, np.full(40, "maybe"))
    with pytest.raises(ValueError, match="NaN"):
        HedgedBlend(pile).fit(np.where(table > 0.9, np.nan, table), y)
    with pytest.raises(InvalidInput, match="3 columns as in the contract, found 2"):
        HedgedBlend(pile).fit(table[:, :2], y)
    other = Contract(features=3, row_norm=2.0, constant=0.25, classes=("no", "yes"))
    with pytest.raises(InvalidInput, match="row_norm"):
        HedgedBlend([*pile, moments("other", other)]).fit(table, y)
    with pytest.raises(InvalidInput, match="one release a party"):
        HedgedBlend([*pile, pile[0]]).fit(table, y)


def test_it_stays_inside() -> None:
    with pytest.raises(PrivacyError, match="fitted to your own rows"):
        fitted(CLASSES).release("me")


@CONTRACTS
def test_odd_data_is_no_trouble(contract: Contract) -> None:
    """Rows of zeros, copies of one row, rows far beyond the norm, targets that never vary."""
    rng = seeded(9)
    _, y, _ = rows_and_targets(contract, 12, 3)
    for table in (np.zeros((12, 3)), np.ones((12, 3)), 1e9 * rng.normal(size=(12, 3))):
        blend = HedgedBlend(mixed(contract)).fit(table, y)
        assert np.isfinite(blend.weights_).all()
        assert np.isfinite(blend.components_).all()
    if contract is NUMBERS:
        flat = HedgedBlend(mixed(contract)).fit(rng.normal(size=(12, 3)), np.zeros(12))
        assert np.isfinite(flat.predict(np.ones((1, 3)))).all()
