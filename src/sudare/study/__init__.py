"""The public contract between organisations, and the way from their tables to bounded rows."""

from sudare.study.contract import (
    Categories,
    Column,
    Feature,
    Model,
    Number,
    Study,
    Target,
    Terms,
    label_text,
)
from sudare.study.tables import Block, header, raw_content, read_blocks, read_table
from sudare.study.text import Problem, StudyInvalid, draft_study, parse_study, read_study

__all__ = [
    "Block",
    "Categories",
    "Column",
    "Feature",
    "Model",
    "Number",
    "Problem",
    "Study",
    "StudyInvalid",
    "Target",
    "Terms",
    "draft_study",
    "header",
    "label_text",
    "parse_study",
    "raw_content",
    "read_blocks",
    "read_study",
    "read_table",
]
