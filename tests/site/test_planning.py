import dataclasses
import xml.etree.ElementTree as ElementTree

import pytest

from sudare.foundations.checks import InvalidInput
from sudare.site._planning import LearningPlan, plan_learning


@pytest.fixture(scope="module")
def plan() -> LearningPlan:
    return plan_learning(rows=40, features=4, epsilon=2.0, parties=15, runs=3)


def test_more_budget_brings_the_blend_from_own_towards_pooled(plan: LearningPlan) -> None:
    assert [point.epsilon for point in plan.points] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert plan.points[-1].blend > plan.points[-1].own
    assert plan.points[-1].blend <= plan.points[-1].pooled + 0.02
    assert len({point.own for point in plan.points}) == 1
    assert plan.points[-1].blend - plan.points[-1].own > plan.points[0].blend - plan.points[0].own
    best = dataclasses.replace(plan, epsilon=8.0)
    assert "points more" in best.verdict
    assert 0 < plan.noise_share < 1


def test_the_same_seed_gives_the_same_plan(plan: LearningPlan) -> None:
    assert plan_learning(rows=40, features=4, epsilon=2.0, parties=15, runs=3) == plan


def test_a_hopeless_plan_is_called_so() -> None:
    hopeless = plan_learning(rows=30, features=5, epsilon=0.01, parties=2, runs=2)
    assert "no visible gain" in hopeless.verdict
    assert hopeless.noise_share > 1


def test_the_picture_is_an_svg_of_its_own(plan: LearningPlan) -> None:
    assert ElementTree.fromstring(plan.to_svg()).tag.endswith("svg")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": 5}, "rows=5 >= 10"),
        ({"parties": 1}, "parties=1"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"delta": 0}, "delta=0"),
        ({"rows": 10**6, "features": 1000}, "smaller plan"),
    ],
)
def test_plans_that_cannot_be(changed: dict[str, float], message: str) -> None:
    settings = {"rows": 20, "features": 2, "epsilon": 1.0, "parties": 3} | changed
    with pytest.raises(InvalidInput, match=message):
        plan_learning(**settings)  # type: ignore[arg-type]
