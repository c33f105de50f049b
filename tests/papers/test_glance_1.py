"""The region of condition (2)."""

import math

import pytest

from papers import Verdict
from papers.glance_1 import PRINTED, ROOT, boundary
from tests.papers.smoke import check_figure, verdict


def _condition(share: float, epsilon: float, users: int, doubled: bool) -> bool:
    """Condition (2), written out from the paper with logarithms of its own."""
    rounds, beta, e = 10, 0.1, math.exp(epsilon)
    k = -math.log(1 - rounds / users * math.log(4 * rounds / beta))
    root = (e * k / 3 + math.sqrt((e * k / 3) ** 2 + 2 * e * k)) / (e - 1)
    theta = 2 * root if doubled else root

    def divergence(a: float, b: float) -> float:
        if not 0 < a < 1:
            return math.inf
        return a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b))

    right = (e - 1) ** 2 * theta**2 / (2 * e) / (1 + (e - 1) * theta / 3)
    return min(divergence(share - theta, share), divergence(share + theta, share)) >= right


@pytest.mark.parametrize("users", [10_000, 100_000])
@pytest.mark.parametrize("epsilon", [2.0, 5.0, 9.0])
@pytest.mark.parametrize("curve", [PRINTED, ROOT])
def test_the_boundary_is_one(curve: str, epsilon: float, users: int) -> None:
    edge = boundary(curve, epsilon, users)
    doubled = curve == PRINTED
    assert _condition(edge * 0.9999, epsilon, users, doubled)
    assert not _condition(edge * 1.0001, epsilon, users, doubled)
    assert _condition(edge / 10, epsilon, users, doubled)


def test_known_boundaries() -> None:
    assert boundary(PRINTED, 5.0, 10_000) == pytest.approx(0.0087, abs=5e-5)
    assert boundary(PRINTED, 10.0, 100_000) == pytest.approx(1.6e-4, abs=5e-6)


def test_it_runs_and_holds() -> None:
    check_figure("glance-1", "condition (2) holds", "100,000 users")
    assert verdict("glance-1") is Verdict.HOLDS


def test_a_wide_region_would_be_seen() -> None:
    assert verdict("glance-1", lambda p, c, x, v: 0.3) is Verdict.FAILS
