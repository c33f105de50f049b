"""Blending: received releases and own rows into a better model than either.

Every blend is a scikit-learn estimator over `releases`; it is fitted to own rows, stays inside, and
predicts like any model. `HedgedBlend` is the one to start with; the others are what it is compared
with. `publish_choice` and `publish_combination` make what may leave.
"""

from sudare.blending.averages import BestLearner, PrecisionAverage, UniformAverage
from sudare.blending.explain import Explanation
from sudare.blending.frozen import FrozenModel
from sudare.blending.hedged import HedgedBlend
from sudare.blending.mirror import ExponentialWeights, MirrorAveraging
from sudare.blending.publish import publish_choice, publish_combination
from sudare.blending.received import Received, receive
from sudare.blending.splitting import SplitMixing
from sudare.blending.stacking import (
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
    "Explanation",
    "ExponentialWeights",
    "FrozenModel",
    "HedgedBlend",
    "LassoStack",
    "MirrorAveraging",
    "PrecisionAverage",
    "Received",
    "RidgeStack",
    "SelectionStack",
    "SplitMixing",
    "UniformAverage",
    "publish_choice",
    "publish_combination",
    "receive",
]
