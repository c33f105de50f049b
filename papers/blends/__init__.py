"""Blends to compare with: the other systems of the papers' tables.

Scikit-learn estimators over `releases`, as those of `sudare.blending` are: fitted to own rows, and
never to leave.

    averages    plain and weighted averages, and the one best learner
    stacking    weights fitted to own rows: convex, ridge, selection, lasso, Dantzig selector
    splitting   scaled on one half of the own rows, weighed on the other
"""

from papers.blends.averages import BestLearner, PrecisionAverage, UniformAverage
from papers.blends.splitting import SplitMixing
from papers.blends.stacking import (
    ConvexStack,
    DantzigStack,
    LassoStack,
    RidgeStack,
    SelectionStack,
)

__all__ = [
    "BestLearner",
    "ConvexStack",
    "DantzigStack",
    "LassoStack",
    "PrecisionAverage",
    "RidgeStack",
    "SelectionStack",
    "SplitMixing",
    "UniformAverage",
]
