"""Curves in one line."""

import math

import numpy as np

from sudare.cli.sparks import sparks


def test_from_nothing_to_everything():
    assert sparks([0.0, 0.124, 0.125, 0.5, 0.99, 1.0]) == "▁▁▂▅██"


def test_beyond_the_ends_and_without_a_value():
    assert sparks([-3.0, math.nan, 7.0]) == "▁ █"
    assert sparks(np.array([np.nan, 1.0])) == " █"
    assert sparks([]) == ""


def test_long_curves_are_thinned():
    line = sparks(np.linspace(0, 1, 1000), width=50)
    assert len(line) == 50
    assert list(line) == sorted(line)
