"""Blending: received releases and own rows into a better model than either.

Every blend is a scikit-learn estimator over `releases`; it is fitted to own rows, stays inside, and
predicts like any model. `HedgedBlend` is the one to start with; mirror averaging is what the papers
promise most for. `publish_choice` and `publish_combination` make what may leave.
"""

from sudare.blending._base import Blend, Mixing, OwnRows, bounded
from sudare.blending._explain import CandidateWeight, Explanation
from sudare.blending._frozen import FrozenModel
from sudare.blending._hedged import HedgedBlend
from sudare.blending._losses import LossName
from sudare.blending._publish import publish_choice, publish_combination, steps_lost
from sudare.blending._received import Learners, Received, receive
from sudare.blending._theory import holdout_interval, oracle_price, privacy_cost
from sudare.blending.mirror import ExponentialWeights, MirrorAveraging

__all__ = [
    "Blend",
    "CandidateWeight",
    "Explanation",
    "ExponentialWeights",
    "FrozenModel",
    "HedgedBlend",
    "Learners",
    "LossName",
    "MirrorAveraging",
    "Mixing",
    "OwnRows",
    "Received",
    "bounded",
    "holdout_interval",
    "oracle_price",
    "privacy_cost",
    "publish_choice",
    "publish_combination",
    "receive",
    "steps_lost",
]
