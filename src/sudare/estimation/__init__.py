"""Estimation: what a consortium's noisy sums say about its people, with honest intervals.

Pure: arrays and releases in, numbers with intervals out. `sudare.site` reads the files and the
study, and draws the pages.
"""

from sudare.estimation._description import (
    CategorySummary,
    Description,
    LevelSummary,
    NumberSummary,
    Quantity,
    describe,
)
from sudare.estimation._forms import NoisySums
from sudare.estimation._summaries import Summaries

__all__ = [
    "CategorySummary",
    "Description",
    "LevelSummary",
    "NoisySums",
    "NumberSummary",
    "Quantity",
    "Summaries",
    "describe",
]
