"""Searches for the neighbours that tell most: how much of a promise is used up.

What is found is a lower bound of what a mechanism spends. It is exact for the neighbours found: a
density or probability is computed, not estimated.
"""

from benchmarks.attacks.laws import epsilon_at, steps_delta, transcripts_epsilon
from benchmarks.attacks.regression import (
    Plane,
    gibbs_pair,
    logistic_output_distance,
    logistic_plane,
    ridge_output_distance,
    ridge_plane,
)

__all__ = [
    "Plane",
    "epsilon_at",
    "gibbs_pair",
    "logistic_output_distance",
    "logistic_plane",
    "ridge_output_distance",
    "ridge_plane",
    "steps_delta",
    "transcripts_epsilon",
]
