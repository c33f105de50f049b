"""The edge of a ball, hard and soft."""

import math

import numpy as np
import pytest

from sudare.foundations.sampling.shared import WALL_WIDTH, Draws, hard_limit, wall_height


def test_a_hard_edge_is_the_radius_itself() -> None:
    thetas = np.array([[0.0, 0.0], [0.6, 0.8], [0.6, 0.8000001], [3.0, 0.0]])
    assert hard_limit(1.0, 0.0) == 1.0
    assert wall_height(thetas, 1.0, 0.0).tolist() == [0.0, 0.0, math.inf, math.inf]


def test_a_wall_rises_from_the_radius_to_the_limit() -> None:
    assert hard_limit(2.0, 5.0) == 2.0 * (1 + WALL_WIDTH)
    norms = np.array([0.5, 2.0, 2.001, 2.0019, 2.002])
    heights = wall_height(norms[:, None], 2.0, 5.0)
    assert heights[:4] == pytest.approx([0.0, 0.0, 0.005, 0.0095], abs=1e-12)
    assert heights[4] == math.inf


def test_without_a_ball_there_is_no_edge() -> None:
    assert hard_limit(math.inf, 0.0) == math.inf
    assert wall_height(np.full((2, 3), 1e300), math.inf, 7.0).tolist() == [0.0, 0.0]


def test_draws_say_where_they_came_from() -> None:
    drawn = Draws(np.zeros((2, 3)), "simple", 0.0)
    with pytest.raises(AttributeError):
        drawn.sampler = "other"  # type: ignore[misc]
