"""An organisation's workflow: release what it may, verify what it receives, blend, predict."""

from sudare.site.learner import Preview, make_learner, planned_event, preview
from sudare.site.receiving import Checked, collect, verify
from sudare.site.releasing import Published, publish

__all__ = [
    "Checked",
    "Preview",
    "Published",
    "collect",
    "make_learner",
    "planned_event",
    "preview",
    "publish",
    "verify",
]
