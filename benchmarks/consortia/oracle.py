"""What someone would make of the releases who knows everything but the coefficients.

For synthetic consortia of one law only: that all organisations are alike, the law of rows, and how
long coefficients are. No method can count on any of these; what is left to lose is sampling and
privacy noise. So the gap that this closes is about the most that moments allow at their noise.
"""

import numpy as np

from benchmarks.consortia import Array, Consortium
from benchmarks.consortia.synthetic import LENGTH
from sudare.blending._matching import RowLaw, matched
from sudare.blending._records import Laws, Records, fit
from sudare.releases import MomentsRelease


def informed(consortium: Consortium, releases: list[MomentsRelease]) -> Array:
    """Coefficients, for rows as the contract sees them."""
    contract = consortium.contract
    d, p, norm = contract.features, contract.dimension, contract.full_norm
    mean, spread = np.zeros(p), np.zeros((p, p))
    spread[:d, :d] = np.eye(d) / (d * norm**2)
    if contract.constant > 0:
        mean[-1] = contract.constant / norm
    law = RowLaw(mean, spread)
    n = sum(release.n for release in releases)
    noise = sum(release.noise_std**2 for release in releases)
    target = sum((release.cross_vector for release in releases), start=np.zeros(p)) / n
    penalty = d / (LENGTH * norm) ** 2 * np.eye(p)
    # Of the mean of all yx; diagonal, as rows are uniform on the sphere.
    precision: Array = np.diag(1 / (np.diag(law.second) / n + noise / n**2))
    laws: Laws = matched(target[None], precision[None], penalty[None], law, labels=True).laws
    own = Records(contract.rows(consortium.own_X) / norm, contract.targets(consortium.own_y))
    theta: Array = fit(own, laws).theta[0] / norm
    return theta
