"""sudare: learn and count together without anyone seeing anyone's data.

The names people start with can be imported from here. Each brings in its own room when it is asked
for, and no other: `import sudare` alone is light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sudare.blending import HedgedBlend, MirrorAveraging
    from sudare.counting import Client, Survey
    from sudare.foundations.privacy import account
    from sudare.learners import (
        MomentsClassifier,
        MomentsRegressor,
        PrivateLogisticRegression,
        PrivateRidge,
    )
    from sudare.ledger import Ledger

__all__ = [
    "Client",
    "HedgedBlend",
    "Ledger",
    "MirrorAveraging",
    "MomentsClassifier",
    "MomentsRegressor",
    "PrivateLogisticRegression",
    "PrivateRidge",
    "Survey",
    "account",
]

_ROOMS = {
    "sudare.blending": ("HedgedBlend", "MirrorAveraging"),
    "sudare.counting": ("Client", "Survey"),
    "sudare.foundations.privacy": ("account",),
    "sudare.learners": (
        "MomentsClassifier",
        "MomentsRegressor",
        "PrivateLogisticRegression",
        "PrivateRidge",
    ),
    "sudare.ledger": ("Ledger",),
}


def __getattr__(name: str) -> Any:
    for room, names in _ROOMS.items():
        if name in names:
            return getattr(import_module(room), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
