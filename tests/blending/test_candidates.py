"""What releases suggest: the law of rows, beliefs and their chances; all without own labels."""

from typing import Any

import msgspec
import numpy as np
import pytest

from sudare.blending._candidates import (
    Candidates,
    learner_candidates,
    moments_candidates,
    row_law,
)
from sudare.blending._matching import Records
from sudare.blending._own import own_model
from sudare.blending._received import Received, receive
from sudare.foundations.randomness import seeded
from sudare.releases import Contract, MomentsRelease
from tests.blending.parties import CLASSES, NUMBERS, moments, rows_and_targets, some_learners

CONTRACTS = pytest.mark.parametrize("contract", [CLASSES, NUMBERS], ids=["classes", "numbers"])


def own_records(contract: Contract, n: int = 40, seed: int = 50) -> Records:
    table, _, numbers = rows_and_targets(contract, n, seed)
    rows = contract.rows(table) / contract.full_norm
    if contract.target_bound is None:
        return Records(rows, numbers)
    return Records(rows, numbers / contract.target_bound, 0.04)


def many_moments(contract: Contract, many: int = 12, **changes: Any) -> Received:
    return receive([moments(f"{k}", contract, seed=k, **changes) for k in range(many)])


def suggest(contract: Contract, **changes: Any) -> Candidates:
    own = own_records(contract)
    return moments_candidates(many_moments(contract, **changes), own, own_model(own))


def truth_of(contract: Contract) -> tuple[Any, Any]:
    table, _, _ = rows_and_targets(contract, 50_000, 99)
    rows = contract.rows(table) / contract.full_norm
    return rows.mean(axis=0), rows.T @ rows / len(rows)


def test_row_law_is_that_of_the_rows() -> None:
    mean, second = truth_of(CLASSES)
    own = own_records(CLASSES).rows
    law, error, mean_error = row_law(
        many_moments(CLASSES, n=2000, noise_std=1e-3).moments, CLASSES, own
    )
    np.testing.assert_allclose(law.mean, mean, atol=0.01)
    np.testing.assert_allclose(law.second, second, atol=0.01)
    assert 0 <= error < 1e-5
    assert 0 < mean_error < 1e-3


def test_noisy_releases_leave_the_row_law_to_own_rows_and_shrink_it() -> None:
    own = own_records(CLASSES).rows
    law, _, _ = row_law(many_moments(CLASSES, noise_std=1e5).moments, CLASSES, own)
    np.testing.assert_allclose(np.trace(law.second), (own**2).sum(axis=1).mean(), rtol=0.1)
    assert (np.abs(law.mean) <= np.abs(own.mean(axis=0)) + 1e-3).all()
    raw = own[:, :3].T @ own[:, :3] / len(own)
    found = law.second[:3, :3]
    assert _flatness(found) < _flatness(raw)
    assert (np.linalg.eigvalsh(law.spread)[1:] > 0).all()


def test_means_are_kept_where_they_are_sure_and_drawn_to_zero_where_not() -> None:
    rows = np.column_stack([np.full(40, 0.5), np.zeros((40, 2)), np.full(40, 0.2)])
    rows[:, :3] += 0.1 * seeded(2).normal(size=(40, 3))
    noise = many_moments(CLASSES, noise_std=1e5).moments
    law, _, error = row_law(noise, CLASSES, rows)
    np.testing.assert_allclose(law.mean[:3], rows.mean(axis=0)[:3], atol=0.05)
    assert error > 0
    rows[:, 0] -= rows[:, 0].mean()
    law, _, error = row_law(noise, CLASSES, rows)
    assert np.linalg.norm(law.mean[:3]) < np.linalg.norm(rows.mean(axis=0)[:3])


def _flatness(matrix: Any) -> float:
    values = np.linalg.eigvalsh(matrix)
    return float(values[-1] / values[0])


def test_rows_without_a_constant_are_centred() -> None:
    contract = Contract(features=3, row_norm=1.0, classes=("no", "yes"))
    table, _, _ = rows_and_targets(contract, 60, 5)
    law, _, _ = row_law(many_moments(contract).moments, contract, contract.rows(table))
    assert not law.mean.any()


@CONTRACTS
def test_chances_and_shares_add_up(contract: Contract) -> None:
    found = suggest(contract)
    k = len(found.names)
    assert len(found.beliefs) == len(set(found.names)) == len(found.chances) == k
    assert 0 < found.chances.sum() < 1
    assert (found.chances > 0).all()
    np.testing.assert_allclose(found.contributions.sum(axis=1), 1, rtol=1e-9)
    assert found.contributions.shape == (k, 12)
    assert ((found.doubts >= 0) & (found.doubts <= 1)).all()
    assert found.parties == tuple(str(k) for k in range(12))


@CONTRACTS
def test_precise_releases_that_agree_are_believed(contract: Contract) -> None:
    """Chances go to organisations that do not differ, and the belief is sharp and right."""
    found = suggest(contract, n=2000, noise_std=0.1)
    best = int(np.argmax(found.chances))
    assert found.names[best] == "all, alike"
    table, _, numbers = rows_and_targets(contract, 50_000, 99)
    rows = contract.rows(table) / contract.full_norm
    right = rows.T @ (numbers / (contract.target_bound or 1.0)) / len(rows)
    np.testing.assert_allclose(found.beliefs.target[best], right, atol=0.01)
    vague = suggest(contract, noise_std=50.0)
    sharp_precision = np.trace(found.beliefs.precision[best])
    assert sharp_precision > 100 * np.trace(vague.beliefs.precision[best])


def test_releases_that_differ_are_believed_less() -> None:
    """The same noise, other truths: a wider variance carries the chances."""
    rng = seeded(4)
    same = [moments(f"{k}", n=2000, noise_std=0.1, seed=k) for k in range(12)]
    other = [
        moments(
            r.party, n=2000, noise_std=0.1, cross=tuple(r.cross_vector + 150 * rng.normal(size=4))
        )
        for r in same
    ]
    own = own_records(CLASSES)
    alike, unlike = (
        moments_candidates(receive(pile), own, own_model(own)) for pile in (same, other)
    )
    assert _at_its_word(alike) > 0.8
    assert _at_its_word(unlike) < 0.05


def _at_its_word(found: Candidates) -> float:
    """Chance that organisations do not differ at all."""
    alike = ["alike" in name for name in found.names]
    return float(found.chances[alike].sum() / found.chances.sum())


def kinds_of_rows(noise_std: float = 1.0, n: int = 2000) -> list[MomentsRelease]:
    """The same coefficients everywhere, but columns that vary more here than there."""
    pile = []
    for k in range(20):
        rng = seeded(300 + k)
        table = rng.uniform(0.1, 0.55, size=3) * rng.uniform(-1, 1, size=(n, 3))
        x = NUMBERS.rows(table) / NUMBERS.full_norm
        y = table @ [0.9, -0.7, 0.5] + 0.1 * rng.normal(size=n)
        noise = np.triu(noise_std * rng.normal(size=(4, 4)))
        pile.append(
            moments(
                f"{k}",
                NUMBERS,
                n=n,
                noise_std=noise_std,
                cross=tuple(x.T @ y + noise_std * rng.normal(size=4)),
                gram=tuple((x.T @ x + noise)[np.triu_indices(4)]),
            )
        )
    return pile


def test_other_rows_are_not_other_coefficients() -> None:
    """Σxxᵀ explains how Σyx differ; where all send the same Σxxᵀ, the coefficients must differ."""
    pile = kinds_of_rows()
    gram = tuple(np.mean([release.gram for release in pile], axis=0))
    hidden = [msgspec.structs.replace(release, gram=gram) for release in pile]
    own = own_records(NUMBERS)
    said, unsaid = (
        _at_its_word(moments_candidates(receive(releases), own, own_model(own)))
        for releases in (pile, hidden)
    )
    assert said > 0.8
    assert unsaid < 0.05


def test_noise_in_the_rows_explains_nothing() -> None:
    """A Σxxᵀ that noise covers moves nothing, even if a few that stand out are sent on purpose."""
    pile = kinds_of_rows(noise_std=600.0)
    loud = [
        msgspec.structs.replace(release, gram=tuple(3 * np.array(release.gram)))
        for release in pile[:4]
    ]
    for releases in (pile, [*loud, *pile[4:]]):
        gram = tuple(np.mean([release.gram for release in releases], axis=0))
        hidden = [msgspec.structs.replace(release, gram=gram) for release in releases]
        own = own_records(NUMBERS)
        found, without = (
            moments_candidates(receive(pile), own, own_model(own)) for pile in (releases, hidden)
        )
        np.testing.assert_allclose(found.beliefs.target, without.beliefs.target, atol=1e-9)


def test_vague_beliefs_leave_their_chance_to_the_own_model() -> None:
    sums = [float(suggest(CLASSES, noise_std=s).chances.sum()) for s in (1.0, 30.0, 1000.0)]
    assert sums[0] > 0.8 > sums[1] > sums[2]
    assert sums[2] < 0.1


def test_direction_leaves_length_and_intercept_free() -> None:
    found = suggest(CLASSES, n=2000, noise_std=0.1)
    word = found.names.index("all, alike")
    free = found.names.index("all, alike, direction")
    target = found.beliefs.target[word] / np.linalg.norm(found.beliefs.target[word])
    variances = [np.linalg.inv(found.beliefs.precision[k]) for k in (word, free)]
    along = [target @ v @ target for v in variances]
    assert along[1] > 100 * along[0]
    assert variances[1][-1, -1] > 10 * variances[0][-1, -1]


def test_few_releases_make_no_groups() -> None:
    own = own_records(CLASSES)
    for many, most in ((4, 1), (10, 2), (15, 3)):
        found = moments_candidates(many_moments(CLASSES, many), own, own_model(own))
        sizes = {name.split(" of ")[1][0] for name in found.names if name.startswith("group")}
        assert sizes == {str(k) for k in range(2, most + 1)}


@CONTRACTS
def test_learners_speak_about_coefficients(contract: Contract) -> None:
    own = own_records(contract)
    received = receive(some_learners(contract, 6))
    found = learner_candidates(received, own, own_model(own))
    assert found.beliefs.about == "coefficients"
    assert 0 < found.chances.sum() < 1
    unit = contract.full_norm / (contract.target_bound or 1.0)
    lengths = np.linalg.norm(received.learners.coefficients * unit, axis=1)
    assert (np.linalg.norm(found.beliefs.target, axis=1) < lengths.max()).all()


@CONTRACTS
def test_own_labels_are_not_used_but_for_the_penalty(contract: Contract) -> None:
    own = own_records(contract)
    turned = Records(own.rows, -own.targets, own.noise_variance)
    received = many_moments(contract)
    one, other = (moments_candidates(received, r, own_model(r)) for r in (own, turned))
    np.testing.assert_array_equal(one.beliefs.target, other.beliefs.target)
    np.testing.assert_array_equal(one.beliefs.precision, other.beliefs.precision)
    np.testing.assert_array_equal(one.chances, other.chances)
