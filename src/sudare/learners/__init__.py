"""Private learners, as scikit-learn estimators.

Each states its guarantee before it reads a row (`plan()`) and after (`guarantee_`), and publishes
nothing but sealed coefficients.
"""

from sudare.learners.logistic import PrivateLogisticRegression
from sudare.learners.moments import MomentsClassifier, MomentsRegressor
from sudare.learners.normal_mean import PrivateNormalMean
from sudare.learners.ridge import PrivateRidge
from sudare.learners.scaler import PublicScaler

__all__ = [
    "MomentsClassifier",
    "MomentsRegressor",
    "PrivateLogisticRegression",
    "PrivateNormalMean",
    "PrivateRidge",
    "PublicScaler",
]
