"""What releases suggest: laws of θ and their chances; all without own labels."""

from typing import Any

import msgspec
import numpy as np
import pytest

from sudare.blending import _candidates
from sudare.blending._candidates import Candidates, learner_candidates, moments_candidates
from sudare.blending._received import receive
from sudare.blending._records import Laws, Records, fit
from sudare.foundations.randomness import seeded
from sudare.releases import Contract, MomentsRelease
from tests.blending.parties import (
    CLASSES,
    NUMBERS,
    many_moments,
    moments,
    own_records,
    rows_and_targets,
    some_learners,
)

CONTRACTS = pytest.mark.parametrize("contract", [CLASSES, NUMBERS], ids=["classes", "numbers"])


def suggest(contract: Contract, **changes: Any) -> Candidates:
    return moments_candidates(many_moments(contract, **changes), own_records(contract))[0]


@CONTRACTS
def test_chances_and_shares_add_up(contract: Contract) -> None:
    found = suggest(contract)
    k = len(found.names)
    assert len(found.laws) == len(set(found.names)) == len(found.chances) == k
    assert 0 < found.chances.sum() < 1
    assert (found.chances >= 0).all()
    np.testing.assert_allclose(found.contributions.sum(axis=1), 1, rtol=1e-9)
    assert found.contributions.shape == (k, 12)
    assert ((found.doubts >= 0) & (found.doubts <= 1)).all()
    assert found.parties == tuple(str(k) for k in range(12))


@CONTRACTS
def test_precise_releases_that_agree_are_believed(contract: Contract) -> None:
    """Chances go to organisations that do not differ, and the law is sharp and right."""
    found = suggest(contract, n=2000, noise_std=0.1)
    best = int(np.argmax(found.chances))
    assert found.names[best] in ("all, alike", "all, levels apart")
    table, _, numbers = rows_and_targets(contract, 50_000, 99)
    rows = contract.rows(table) / contract.full_norm
    targets = numbers / (contract.target_bound or 1.0)
    many = Records(rows, targets, None if contract is CLASSES else 0.01)
    vague_law = Laws(np.zeros((1, 4)), 1e-6 * np.eye(4)[None])
    (right,) = fit(many, vague_law).theta
    scores = rows @ found.laws.mean[best], rows @ right
    assert np.corrcoef(*scores)[0, 1] > 0.998
    # Rows are not normal here, which makes it too long where labels are told nearly surely.
    length = scores[0].std() / scores[1].std()
    assert length == pytest.approx(1.0 if contract is NUMBERS else 1.37, abs=0.05)
    vague = suggest(contract, noise_std=50.0)
    sharp_precision = np.trace(found.laws.precision[best])
    assert sharp_precision > 30 * np.trace(vague.laws.precision[best])


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
    alike, unlike = (moments_candidates(receive(pile), own)[0] for pile in (same, other))
    assert _at_its_word(alike) > 0.8
    assert _at_its_word(unlike) < 0.05


def _at_its_word(found: Candidates) -> float:
    """Chance that organisations do not differ but in how common the outcome is."""
    alike = ["alike" in name or "levels apart" in name for name in found.names]
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
        _at_its_word(moments_candidates(receive(releases), own)[0]) for releases in (pile, hidden)
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
        found, without = (moments_candidates(receive(pile), own)[0] for pile in (releases, hidden))
        np.testing.assert_allclose(found.laws.mean, without.laws.mean, atol=1e-9)


def test_vague_laws_leave_their_chance_to_the_own_model() -> None:
    sums = [float(suggest(CLASSES, noise_std=s).chances.sum()) for s in (1.0, 30.0, 1000.0)]
    assert sums[0] > 0.6 > sums[1] > sums[2]
    assert sums[2] < 0.2


def test_direction_and_length_are_left_free() -> None:
    found = suggest(CLASSES, n=2000, noise_std=0.1)
    word, length, free = (
        found.names.index(f"all, alike{which}") for which in ("", ", any length", ", direction")
    )
    mean = found.laws.mean[word]
    covariances = [np.linalg.inv(found.laws.precision[k]) for k in (word, length, free)]
    np.testing.assert_array_equal(found.laws.mean[length], mean)
    assert not found.laws.mean[free].any()
    corner = np.zeros((4, 4))
    corner[-1, -1] = 4 / (CLASSES.constant / CLASSES.full_norm) ** 2
    for covariance, size in zip(covariances[1:], (0.25, 1.0), strict=True):
        added = size * np.outer(mean, mean) + corner
        np.testing.assert_allclose(covariance - covariances[0], added, rtol=1e-6, atol=1e-6)


def levels_apart(spread: float, many: int = 30) -> list[MomentsRelease]:
    """The same effects everywhere, but an outcome that is more common here than there."""
    pile = []
    for k in range(many):
        rng = seeded(500 + k)
        table = 0.5 * rng.uniform(-1, 1, size=(1500, 3))
        x = CLASSES.rows(table) / CLASSES.full_norm
        scores = table @ [3.0, -2.0, 1.0] + spread * rng.normal()
        y = np.where(rng.random(1500) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
        noise = np.triu(rng.normal(size=(4, 4)))
        pile.append(
            moments(
                f"{k}",
                n=1500,
                noise_std=1.0,
                cross=tuple(x.T @ y + rng.normal(size=4)),
                gram=tuple((x.T @ x + noise)[np.triu_indices(4)]),
            )
        )
    return pile


def test_levels_that_differ_are_no_effects_that_differ() -> None:
    """The chance goes to effects that agree, and own level is free where the effects are not."""
    own = own_records(CLASSES)
    for rows in (0, 1):
        apart = moments_candidates(receive(levels_apart(0.8)), own)[rows]
        chances = dict(zip(apart.names, apart.chances, strict=True))
        assert chances["all, levels apart"] > 100 * chances["all, alike"]
        assert chances["all, levels apart"] > 20 * chances["all, effects apart by 0.4"]
        best = apart.names.index("all, levels apart")
        covariance = np.linalg.inv(apart.laws.precision[best])
        level = np.sqrt(covariance[-1, -1]) * CLASSES.constant / CLASSES.full_norm
        assert 0.5 < level < 1.3
        same = moments_candidates(receive(levels_apart(0.0)), own)[rows]
        chances = dict(zip(same.names, same.chances, strict=True))
        assert chances["all, alike"] > chances["all, levels apart"]


def test_rows_hardly_varying_in_a_direction_do_not_rule_the_correction() -> None:
    """The coefficients behind "rows of another kind" are a ratio of sums over directions: where a
    column never varies, noise over nothing must not count."""
    pile = kinds_of_rows(noise_std=20.0)
    held = receive(pile).moments
    second = np.diag([0.04, 0.03, 1e-7, 0.9])
    moved, doubt = _candidates._by_rows(held, second, 0.05)
    other, _ = _candidates._by_rows(held, np.diag([0.04, 0.03, 0.01, 0.9]), 0.05)
    assert np.abs(moved).max() < 3 * np.abs(other).max()
    assert (doubt >= 0).all()


def test_few_releases_make_no_groups() -> None:
    own = own_records(CLASSES)
    for many, most in ((4, 1), (10, 2), (15, 3)):
        found = moments_candidates(many_moments(CLASSES, many), own)[1]
        sizes = {name.split(" of ")[1][0] for name in found.names if name.startswith("group")}
        assert sizes == {str(k) for k in range(2, most + 1)}


@CONTRACTS
def test_learners_speak_about_coefficients(contract: Contract) -> None:
    own = own_records(contract)
    received = receive(some_learners(contract, 6))
    found = learner_candidates(received, own)
    assert 0 < found.chances.sum() < 1
    unit = contract.full_norm / (contract.target_bound or 1.0)
    lengths = np.linalg.norm(received.learners.coefficients * unit, axis=1)
    assert (np.linalg.norm(found.laws.mean, axis=1) < lengths.max()).all()


@CONTRACTS
def test_own_targets_are_not_used_but_for_their_size(contract: Contract) -> None:
    own = own_records(contract)
    turned = Records(own.rows, -own.targets, own.noise_variance, own.constant)
    received = many_moments(contract)
    for which in (0, 1):
        one, other = (moments_candidates(received, r)[which] for r in (own, turned))
        np.testing.assert_array_equal(one.laws.mean, other.laws.mean)
        np.testing.assert_array_equal(one.laws.precision, other.laws.precision)
        np.testing.assert_array_equal(one.chances, other.chances)
