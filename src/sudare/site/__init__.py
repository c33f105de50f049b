"""An organisation's workflow: release what it may, verify what it receives, blend, predict."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sudare.site._approving import ApprovalNeeded, ApprovalRequest, approve, read_request
    from sudare.site._blended import blend, blend_unattended
    from sudare.site._crate import write_crate
    from sudare.site._describing import (
        CSV_HEADER,
        Described,
        csv_rows,
        describe_releases,
        outcome_title,
        render_description,
        shown,
        table_lines,
    )
    from sudare.site._estimate_page import estimate_lines, render_estimate, shown_interval
    from sudare.site._estimating import (
        CSV_HEADER_ESTIMATES,
        Estimated,
        estimate_releases,
        estimate_rows,
    )
    from sudare.site._evaluation import Evaluation, evaluate
    from sudare.site._expectation import Expectation, Gains, expect, seconds_needed
    from sudare.site._export import TERMS_HEADER, term_rows
    from sudare.site._identity import open_data, own_receipts
    from sudare.site._measures import WORDS
    from sudare.site._model import Model, Story, load_model
    from sudare.site._onnx import to_onnx
    from sudare.site._plan import FeatureNoise, ReleasePlan, make_learner
    from sudare.site._planning import LearningPlan, plan_learning
    from sudare.site._pool import PartyStatus, Pool, PoolStatus, new_plan
    from sudare.site._pooling import take_part, take_part_unattended
    from sudare.site._receiving import Checked, collect, verify
    from sudare.site._record import Record, read_record, write_record
    from sudare.site._releasing import Published, publish, publish_unattended
    from sudare.site._report import render
    from sudare.site._resigning import resign

__all__ = [
    "CSV_HEADER",
    "CSV_HEADER_ESTIMATES",
    "TERMS_HEADER",
    "WORDS",
    "ApprovalNeeded",
    "ApprovalRequest",
    "Checked",
    "Described",
    "Estimated",
    "Evaluation",
    "Expectation",
    "FeatureNoise",
    "Gains",
    "LearningPlan",
    "Model",
    "PartyStatus",
    "Pool",
    "PoolStatus",
    "Published",
    "Record",
    "ReleasePlan",
    "Story",
    "approve",
    "blend",
    "blend_unattended",
    "collect",
    "csv_rows",
    "describe_releases",
    "estimate_lines",
    "estimate_releases",
    "estimate_rows",
    "evaluate",
    "expect",
    "load_model",
    "make_learner",
    "new_plan",
    "open_data",
    "outcome_title",
    "own_receipts",
    "plan_learning",
    "publish",
    "publish_unattended",
    "read_record",
    "read_request",
    "render",
    "render_description",
    "render_estimate",
    "resign",
    "seconds_needed",
    "shown",
    "shown_interval",
    "table_lines",
    "take_part",
    "take_part_unattended",
    "term_rows",
    "to_onnx",
    "verify",
    "write_crate",
    "write_record",
]

_LATER = {
    "_approving": ("ApprovalNeeded", "ApprovalRequest", "approve", "read_request"),
    "_blended": ("blend", "blend_unattended"),
    "_crate": ("write_crate",),
    "_describing": (
        "CSV_HEADER",
        "Described",
        "csv_rows",
        "describe_releases",
        "outcome_title",
        "render_description",
        "shown",
        "table_lines",
    ),
    "_estimate_page": ("estimate_lines", "render_estimate", "shown_interval"),
    "_estimating": ("CSV_HEADER_ESTIMATES", "Estimated", "estimate_releases", "estimate_rows"),
    "_evaluation": ("Evaluation", "evaluate"),
    "_export": ("TERMS_HEADER", "term_rows"),
    "_expectation": ("Expectation", "Gains", "expect", "seconds_needed"),
    "_identity": ("open_data", "own_receipts"),
    "_measures": ("WORDS",),
    "_model": ("Model", "Story", "load_model"),
    "_onnx": ("to_onnx",),
    "_plan": ("FeatureNoise", "ReleasePlan", "make_learner"),
    "_planning": ("LearningPlan", "plan_learning"),
    "_pool": ("PartyStatus", "Pool", "PoolStatus", "new_plan"),
    "_pooling": ("take_part", "take_part_unattended"),
    "_receiving": ("Checked", "collect", "verify"),
    "_record": ("Record", "read_record", "write_record"),
    "_releasing": ("Published", "publish", "publish_unattended"),
    "_resigning": ("resign",),
    "_report": ("render",),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
