"""An organisation's workflow: release what it may, verify what it receives, blend, predict."""

from sudare.site.blended import blend
from sudare.site.learner import Preview, make_learner, planned_event, preview
from sudare.site.model import Model, load_model
from sudare.site.planning import LearningPlan, plan_learning
from sudare.site.receiving import Checked, collect, verify
from sudare.site.releasing import Published, publish
from sudare.site.report import render

__all__ = [
    "Checked",
    "LearningPlan",
    "Model",
    "Preview",
    "Published",
    "blend",
    "collect",
    "load_model",
    "make_learner",
    "plan_learning",
    "planned_event",
    "preview",
    "publish",
    "render",
    "verify",
]
