"""What a study may gain: the same releases and pools as the real ones, and words that hold."""

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.releases import LearnerRelease, MomentsRelease
from sudare.site._expectation import Expectation, Gains, _World, expect, seconds_needed
from sudare.site._scenarios import draw_rows, draw_scenario, draw_site
from sudare.study import Block, Study
from tests.site.clinics import classes, counts, numbers

SIZES = (120, 40, 60, 300, 80)


def priced(epsilon: float, study: Study | None = None) -> Study:
    study = classes() if study is None else study
    return msgspec.structs.replace(
        study, privacy=msgspec.structs.replace(study.privacy, epsilon=epsilon)
    )


def blocks(study: Study, *sizes: int) -> list[Block]:
    rng = seeded(1)
    world = draw_scenario(study, rng)
    return [draw_rows(world, draw_site(world, rng), size, rng) for size in sizes]


def exact(world: _World, block: Block) -> tuple[Any, Any]:
    rows = world.contract.rows(block.rows) / world.contract.full_norm
    return block.targets @ rows, rows.T @ rows  # type: ignore[operator]


class TestWhatOthersSend:
    @pytest.mark.parametrize("study", [classes(), numbers()], ids=["classes", "numbers"])
    def test_separate_releases_have_the_noise_that_they_state(self, study: Study) -> None:
        """400 draws: of a standard deviation, five parts in a hundred are three deviations of its
        own for one entry, and a tenth of one over all of them together."""
        world, rng = _World(study, SIZES, 2), seeded(2)
        (block,) = blocks(study, 200)
        cross, gram = exact(world, block)
        upper = np.triu_indices(len(cross))
        found = [world.release(block, "p", rng) for _ in range(400)]
        one = found[0]
        assert isinstance(one, MomentsRelease)
        assert one.simulated
        assert one.contract == world.contract
        off = np.array([r.cross for r in found if isinstance(r, MomentsRelease)]) - cross
        whole = np.array([r.gram for r in found if isinstance(r, MomentsRelease)]) - gram[upper]
        assert off.std() == pytest.approx(one.noise_std, rel=0.06)
        on = upper[0] == upper[1]
        assert whole[:, on].std() == pytest.approx(math.sqrt(2) * one.noise_std, rel=0.06)
        assert whole[:, ~on].std() == pytest.approx(one.noise_std, rel=0.06)

    def test_the_pool_is_the_sum_of_the_others_with_its_noise(self) -> None:
        world, rng = _World(classes(), SIZES, 2), seeded(3)
        held = blocks(classes(), *SIZES)
        terms = world.terms
        assert terms is not None
        found = [world.pooled(terms, held, 3, rng) for _ in range(200)]
        assert found[0].simulated
        assert (found[0].n, found[0].sizes) == (300, (120, 40, 60, 80))
        parts = [exact(world, block) for k, block in enumerate(held) if k != 3]
        off = np.array([r.cross_vector for r in found]) - sum(cross for cross, _ in parts)
        assert off.std() == pytest.approx(terms.noise_std, rel=0.08)
        assert abs(off.mean()) < 0.2 * terms.noise_std
        # √(M/(M − c)) of one party's noise, and 3 % for the number that says how far they differ.
        one = world.release(held[0], "p", rng)
        assert terms.noise_std / one.noise_std == pytest.approx(math.sqrt(5 / 3) * 1.03, rel=0.01)

    def test_a_study_of_coefficients_sends_coefficients(self) -> None:
        study = classes("objective", epsilon=2.0)
        world = _World(study, SIZES, 2)
        (block,) = blocks(study, 100)
        found = world.release(block, "p", seeded(4))
        assert isinstance(found, LearnerRelease)
        assert found.simulated


class TestGains:
    def test_more_budget_gains_more(self) -> None:
        sizes = (25,) * 40
        poor, rich = (expect(priced(e), sizes, runs=10, seed=5) for e in (0.02, 4.0))
        assert poor.own == rich.own
        for kind in ("separate", "pooled"):
            assert abs(poor.gains[kind].mean) < 0.3
            assert rich.gains[kind].mean > 0.6
        assert poor.gains["everything"] == rich.gains["everything"]

    @pytest.mark.parametrize("study", [numbers(), counts()], ids=["numbers", "counts"])
    def test_numbers_count_in_variance_explained(self, study: Study) -> None:
        found = expect(study, (60, 90, 30), runs=3, seed=1)
        assert found.unit == "variance explained"
        assert set(found.gains) == {"separate", "pooled", "everything"}
        assert all(-0.5 < own < 1 for own in found.own)

    def test_the_same_seed_gives_the_same(self) -> None:
        ticks: list[tuple[int, int]] = []
        first = expect(classes(), SIZES, runs=2, seed=7, progress=lambda *at: ticks.append(at))
        assert ticks == [(1, 2), (2, 2)]
        assert expect(classes(), SIZES, runs=2, seed=7) == first
        assert expect(classes(), SIZES, runs=2, seed=8).own != first.own

    def test_two_parties_or_no_delta_have_no_pool(self) -> None:
        assert "pooled" not in expect(classes(), (30, 30), runs=1).gains
        pure = classes("objective", epsilon=2.0)
        privacy = msgspec.structs.replace(pure.privacy, delta=0.0)
        pure = msgspec.structs.replace(pure, privacy=privacy)
        assert "pooled" not in expect(pure, (30, 30, 30), runs=1).gains

    @pytest.mark.parametrize(
        ("sizes", "reason"),
        [((30,), "two parties"), ((30, 9), "10 or more"), ((10**9, 10**9), "smaller plan")],
    )
    def test_what_cannot_be_simulated(self, sizes: tuple[int, ...], reason: str) -> None:
        with pytest.raises(InvalidInput, match=reason):
            expect(classes(), sizes, runs=1)

    def test_time_grows_with_what_is_simulated(self) -> None:
        few, many = seconds_needed(classes(), SIZES, 10), seconds_needed(classes(), SIZES, 100)
        assert many == pytest.approx(10 * few)
        assert seconds_needed(classes(), (10**6,) * 5, 10) > 10 * few


class TestWords:
    def made(self, separate: list[float], pooled: list[float]) -> Expectation:
        gains = {
            "separate": Gains(tuple(separate)),
            "pooled": Gains(tuple(pooled)),
            "everything": Gains(tuple(range(-1, 10))),
        }
        return Expectation(classes(), SIZES, 11, 0, (0.7,) * 11, gains)

    def test_a_range_and_its_middle(self) -> None:
        found = self.made([0.0] * 11, [-0.4, -0.2, 0.1, 0.2, 0.3, 0.46, 0.6, 0.8, 0.9, 1.4, 2.0])
        assert found.best == "pooled"
        assert found.verdict == (
            "With a pool, eight of ten simulated consortia gain between −0.2 and 1.4 points of "
            "share correct; half of them gain less than 0.5. All rows in one place would bring "
            "between 0.0 and 8.0."
        )

    def test_nothing_is_called_nothing(self) -> None:
        found = self.made([-0.01] * 11, [0.4] * 11)
        assert found.verdict.startswith(
            "Expect nothing that one can see: with separate releases or with a pool, nine of ten "
            "simulated consortia gain less than half a point of share correct."
        )

    def test_nothing_is_minus_nothing(self) -> None:
        assert "between 0.0 and 3.0" in self.made([-0.04] * 3 + [3.0] * 8, [0.0] * 11).verdict
