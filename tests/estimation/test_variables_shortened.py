"""The bound on shortened rows, number by number: mean squared lengths by plain loops."""

import numpy as np
import pytest

from sudare.estimation._variables import Variables
from sudare.foundations.randomness import seeded
from tests.estimation.people import exact, noisy, people
from tests.estimation.test_summaries import narrow


@pytest.mark.parametrize("scale", [9.0, 20.0])
def test_the_bound_is_markovs(scale: float) -> None:
    """Of sex and smoker, which have two categories each, one feature is as long in every row."""
    study, frame = narrow(scale), people(800, seeded(40))
    rows = exact(frame, study)[0][:, :-1] * study.contract.full_norm
    names = [each.column for each in study.features]
    others = [place for place, name in enumerate(names) if name not in ("sex", "smoker")]
    assert len(others) == len(names) - 2
    mean = np.mean([sum(row[place] ** 2 for place in others) for row in rows])
    room = study.privacy.row_norm**2 - 2 / len(names)
    sums = noisy(frame, study, 1e-9, seeded(41))
    assert sums.value(Variables(study, sums).shortened()) == pytest.approx(mean / room)
