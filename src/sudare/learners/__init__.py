"""Private learners, as scikit-learn estimators.

Each states its guarantee before it reads a row (`plan()`) and after (`guarantee_`), and publishes
nothing but sealed coefficients.
"""

from sudare.learners._base import check_bound, read_rows
from sudare.learners._definite import inverse, solve
from sudare.learners._logistic import PrivateLogisticRegression
from sudare.learners._moments import (
    MomentsClassifier,
    MomentsRegressor,
    label_means,
    logistic_from_moments,
    ridge_from_moments,
)
from sudare.learners._normal_mean import PrivateNormalMean
from sudare.learners._ridge import PrivateRidge
from sudare.learners._scaler import PublicScaler

__all__ = [
    "MomentsClassifier",
    "MomentsRegressor",
    "PrivateLogisticRegression",
    "PrivateNormalMean",
    "PrivateRidge",
    "PublicScaler",
    "check_bound",
    "inverse",
    "label_means",
    "logistic_from_moments",
    "read_rows",
    "ridge_from_moments",
    "solve",
]
