"""Receiving releases: one contract, one release a party, impossible ones named."""

import re
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from sudare.blending._received import FALSE_DROP, impossible, receive
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.learners import MomentsClassifier, MomentsRegressor, PrivateRidge
from sudare.releases import Contract, MomentsRelease
from tests.blending.parties import CLASSES, NUMBERS, learner, moments, rows_and_targets, truth

ROUND = Contract(features=2, row_norm=1.0, classes=(0, 1))


def test_arrays_hold_what_was_released() -> None:
    one, two = learner("A", (1, 2, 3, 4), n=7), learner("B", (0, 0, 0, 1), noise_std=0.25)
    three = moments("C", n=40)
    got = receive([one, three, two])
    assert got.contract == CLASSES
    assert got.parties == ("A", "B", "C")
    assert got.dropped == ()
    assert got.learners.coefficients.tolist() == [[1, 2, 3, 4], [0, 0, 0, 1]]
    assert got.learners.n.tolist() == [7, 50]
    assert got.learners.noise_std.tolist() == [0.5, 0.25]
    assert got.moments.cross.tolist() == [list(three.cross)]
    assert (got.moments.gram[0] == three.gram_matrix).all()
    assert (got.moments.gram[0] == got.moments.gram[0].T).all()
    assert (got.moments.n[0], got.moments.noise_std[0]) == (40, 3.0)


def test_learners_are_brought_back_into_their_ball() -> None:
    outside = learner("A", (0, 5.05, 0, 0), radius=5.0, slack=0.1)
    got = receive([outside, learner("B", (0, 4, 0, 0), radius=5.0)])
    assert got.learners.coefficients == pytest.approx(np.array([[0, 5, 0, 0], [0, 4, 0, 0]]))


def test_no_release_needs_a_contract() -> None:
    with pytest.raises(InvalidInput, match="at least one release, or a contract"):
        receive([])
    got = receive([], CLASSES)
    assert (len(got.learners), len(got.moments)) == (0, 0)
    assert got.learners.coefficients.shape == (0, 4)
    assert got.moments.gram.shape == (0, 4, 4)
    assert len(got.as_learners()) == 0


@pytest.mark.parametrize(
    ("field", "value", "rest"),
    [
        ("features", 4, {}),
        ("row_norm", 2.0, {}),
        ("constant", 0.0, {}),
        ("classes", ("yes", "no"), {}),
        ("classes", None, {"target_bound": 1.0}),
    ],
)
def test_another_contract_is_an_error_that_names_parties_and_field(
    field: str, value: Any, rest: dict[str, Any]
) -> None:
    other = msgspec.structs.replace(CLASSES, **{field: value}, **rest)
    pair = [learner("Clinic A", np.ones(4)), learner("Clinic B", np.ones(other.dimension), other)]
    with pytest.raises(InvalidInput, match=f"(?s)'Clinic A' has {field}=.*'Clinic B' has {field}="):
        receive(pair)
    with pytest.raises(InvalidInput, match=f"agreed contract has {field}=.*'Clinic A' has"):
        receive(pair, other)


def test_two_releases_of_one_party_are_an_error() -> None:
    with pytest.raises(InvalidInput, match="'Clinic A' sent several"):
        receive([learner("Clinic A", np.ones(4)), moments("Clinic A")])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (learner("A", np.ones(4)), "a list of releases, not a single one"),
        (7, "a list of releases"),
        ([None], "not NoneType"),
        ([PrivateRidge()], r"not PrivateRidge; a fitted learner gives one by .release"),
    ],
)
def test_other_things_are_no_releases(given: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        receive(given)


def test_a_contract_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"sudare\.releases\.Contract"):
        receive([], "contract")  # type: ignore[arg-type]


def changed(release: MomentsRelease, **entries: float) -> MomentsRelease:
    """Entries by name: cross0, gram3, …"""
    parts = {"cross": list(release.cross), "gram": list(release.gram)}
    for name, value in entries.items():
        where, place = re.fullmatch(r"(cross|gram)(\d+)", name).groups()  # type: ignore[union-attr]
        parts[where][int(place)] = value
    return msgspec.structs.replace(release, **{k: tuple(v) for k, v in parts.items()})


# n = 60, noise 3, dimension 4: Σyx is at most 60 + 3·(2 + 5) = 81 long, Σxxᵀ has eigenvalues
# between −33.2 and 93.2 and trace at most 60 + 3·√8·5 = 102.4; the constant's square is
# 3.53 ± 21.2.
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (learner("X", (0, 8.2, 0, 0)), "coefficients 8.2 long, at most 8.1"),
        (learner("X", (1e200, 0, 0, 0)), "coefficients 1e.200 long"),
        (learner("X", (1e200, 0, 0, 0), radius=1e300), "too large to compute with"),
        (learner("X", (1e31, 0, 0, 0), radius=1e300), "too large to compute with"),
        (moments("X", noise_std=1e200), "a noise of 1e.200, too large to compute with"),
        (learner("X", np.ones(4), noise_std=1e31), "a noise of 1e.31, too large to compute with"),
        (learner("X", np.ones(4), n=10**9 + 1), "states 1000000001 rows, more than anyone has"),
        (replace(moments("X"), n=2**53), "states 9007199254740992 rows"),
        (changed(moments("X"), cross0=300.0), "Σyx is 3.. long, at most 81"),
        (changed(moments("X"), cross0=1e200), "Σyx is 1e.200 long"),
        (changed(moments("X"), gram0=-60.0), "Σxxᵀ has eigenvalues from -6"),
        (changed(moments("X"), gram0=120.0), "Σxxᵀ has eigenvalues .* to 1[12]"),
        (changed(moments("X"), gram1=1e300), "Σxxᵀ has eigenvalues"),
        (changed(moments("X"), gram0=80.0, gram4=40.0, gram7=20.0), "Σxxᵀ has trace 1"),
        (changed(moments("X"), gram9=30.0), "constant feature adds up to 30"),
        (changed(moments("X"), gram9=-20.0), "constant feature adds up to -20"),
    ],
)
def test_impossible_releases_are_dropped_with_a_reason(bad: Any, reason: str) -> None:
    good = learner("Good", np.ones(4))
    got = receive([good, bad])
    assert got.parties == ("Good",)
    (dropped,) = got.dropped
    assert re.search(f"^X: .*{reason}", str(dropped))


def test_limits_are_in_the_contracts_units() -> None:
    """Coefficients for tiny rows are as large as they need to be."""
    tiny = Contract(features=1, row_norm=1e-25, classes=(0, 1))
    assert impossible(learner("X", (1e40,), tiny, radius=1e45, noise_std=1e40)) is None
    assert impossible(learner("X", (1e56,), tiny, radius=1e60, noise_std=1e40)) is not None
    for noise_std in (5e-324, 1e-200):
        got = receive([learner("X", (1.0,), tiny, noise_std=noise_std)]).learners
        assert got.noise_std.tolist() == pytest.approx([1e-5])


@pytest.mark.parametrize("bound", ["row_norm", "constant", "target_bound"])
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_bounds_that_cannot_be_computed_with_are_refused(bound: str, size: float) -> None:
    odd = replace(NUMBERS, **{bound: size})
    with pytest.raises(InvalidInput, match=f"{bound}=.* between 1e-30 and 1e30"):
        receive([], odd)


def test_values_just_within_the_law_are_kept() -> None:
    base = moments("X")
    assert impossible(learner("X", np.ones(4), n=10**9)) is None
    zeros = {f"cross{i}": 0.0 for i in range(4)}
    assert impossible(changed(base, **(zeros | {"cross0": 80.9}))) is None
    assert impossible(changed(base, **(zeros | {"cross0": 81.1}))) is not None
    assert impossible(learner("X", (0, 8.1, 0, 0))) is None


@pytest.mark.parametrize("noise_std", [0.01, 30.0])
def test_honest_releases_at_the_edge_of_the_possible_are_kept(noise_std: float) -> None:
    """All rows equal and as long as can be: every bound is met with nothing to spare but noise.

    False drops have probability 3e-5, so even one in 300 releases is too many for a fixed seed.
    """
    assert 6 * np.exp(-12.5) < FALSE_DROP
    rng = seeded(int(noise_std))
    n, p = 25, ROUND.dimension
    row = np.array([0.6, 0.8])
    upper = np.triu_indices(p)
    diagonal = np.where(upper[0] == upper[1], np.sqrt(2), 1.0)

    def drops(factor: float) -> int:
        std = noise_std * factor
        return sum(
            impossible(
                moments(
                    "X",
                    ROUND,
                    n=n,
                    noise_std=noise_std,
                    cross=tuple(n * row + std * rng.normal(size=p)),
                    gram=tuple(n * np.outer(row, row)[upper] + std * diagonal * rng.normal(size=3)),
                )
            )
            is not None
            for _ in range(300)
        )

    assert drops(1.0) == 0
    # Noise of three times the stated size is found out now and then, ten times nearly always.
    assert drops(3.0) > 3
    assert drops(10.0) > 150


def test_releases_of_real_learners_are_kept_even_with_almost_no_noise() -> None:
    table, labels, _ = rows_and_targets(CLASSES, 80)
    for epsilon in (0.01, 1.0, 1e6, 1e12):
        model = MomentsClassifier(epsilon, delta=1e-5, row_norm=0.3, rng=1)
        assert receive([model.fit(table, labels).release("A")]).dropped == ()


def test_moments_make_learners_in_the_units_of_the_contract() -> None:
    """The learner made from a release predicts exactly as the model that released it."""
    table, labels, _ = rows_and_targets(CLASSES, 300)
    kinds = MomentsClassifier(2.0, delta=1e-5, row_norm=1.0, rng=1).fit(table, labels)
    _, y, _ = rows_and_targets(NUMBERS, 300)
    lines = MomentsRegressor(2.0, delta=1e-5, row_norm=1.0, target_bound=2.0, rng=1).fit(table, y)
    for model, scores in (
        (kinds, kinds.decision_function(table)),
        (lines, lines.predict(table)),
    ):
        release = model.release("M")
        theta = truth(release.contract)
        both = receive([learner("A", theta, release.contract), release]).as_learners()
        assert both.parties == ("A", "M")
        assert both.coefficients[0].tolist() == theta.tolist()
        rows = release.contract.rows(table)
        assert rows @ both.coefficients[1] == pytest.approx(scores, rel=1e-9, abs=1e-9)
        assert both.noise_std[1] > 0


def test_noise_of_learners_made_from_moments_is_of_the_right_size() -> None:
    """Against the spread over simulated releases of one data set, within a factor of three."""
    table, y, _ = rows_and_targets(NUMBERS, 3_000)
    made = []
    for seed in range(60):
        model = MomentsRegressor(5.0, delta=1e-5, row_norm=1.0, target_bound=2.0, rng=seed)
        made.append(receive([model.fit(table, y).release("M")]).as_learners())
    spread = np.std([m.coefficients[0, :3] for m in made], axis=0).mean()
    assert spread / 3 < made[0].noise_std[0] < 3 * spread
