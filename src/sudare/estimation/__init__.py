"""Estimation: what a consortium's noisy sums say about its people, with honest intervals.

Pure: arrays and releases in, numbers with intervals out. `sudare.site` reads the files and the
study, and draws the pages.
"""

from sudare.estimation._alike import Alike, alike
from sudare.estimation._coefficients import RATIOS, Coefficient, Family, Model, SiteEstimate, Term
from sudare.estimation._description import (
    CategorySummary,
    Description,
    LevelSummary,
    NumberSummary,
    Quantity,
    describe,
)
from sudare.estimation._forms import NoisySums
from sudare.estimation._lines import Line, least_squares
from sudare.estimation._models import estimate_linear, estimate_session
from sudare.estimation._sites import estimate_sites
from sudare.estimation._summaries import Summaries

__all__ = [
    "RATIOS",
    "Alike",
    "CategorySummary",
    "Coefficient",
    "Description",
    "Family",
    "LevelSummary",
    "Line",
    "Model",
    "NoisySums",
    "NumberSummary",
    "Quantity",
    "SiteEstimate",
    "Summaries",
    "Term",
    "alike",
    "describe",
    "estimate_linear",
    "estimate_session",
    "estimate_sites",
    "least_squares",
]
