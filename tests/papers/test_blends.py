"""Every blend to compare with keeps the contract of a blend."""

from typing import Any

import pytest

from papers import blends
from sudare.blending._base import Blend
from tests.blending.contract import CONTRACTS, check_blend, check_near_the_best
from tests.blending.parties import rows_and_targets, some_learners

EVERY = [getattr(blends, name) for name in blends.__all__]
BLIND = {blends.UniformAverage, blends.PrecisionAverage}
LINEAR = {blends.UniformAverage, blends.PrecisionAverage, blends.BestLearner, blends.RidgeStack}
BOTH = pytest.mark.parametrize("contract", CONTRACTS, ids=["classes", "numbers"])


def test_every_name_is_a_blend() -> None:
    assert all(issubclass(each, Blend) for each in EVERY)


@pytest.mark.parametrize("blend", EVERY, ids=lambda b: b.__name__)
def test_every_blend_keeps_the_contract(blend: Any) -> None:
    check_blend(blend)


@BOTH
@pytest.mark.parametrize("blend", [b for b in EVERY if b not in BLIND], ids=lambda b: b.__name__)
def test_the_good_learners_carry_the_blend(blend: Any, contract: Any) -> None:
    check_near_the_best(blend, contract)


@BOTH
@pytest.mark.parametrize("blend", EVERY, ids=lambda b: b.__name__)
def test_which_blends_are_linear_models(blend: Any, contract: Any) -> None:
    table, y, _ = rows_and_targets(contract, 40)
    model = blend(some_learners(contract)).fit(table, y)
    if contract.classes is not None:
        assert hasattr(model, "coef_") == (blend in LINEAR)
    if blend in LINEAR:
        scores = (model.predict if contract.classes is None else model.decision_function)(table)
        assert table @ model.coef_.ravel() + model.intercept_ == pytest.approx(scores)
