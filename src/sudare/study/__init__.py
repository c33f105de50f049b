"""The public contract between organisations, and the way from their tables to bounded rows."""

from sudare.study._checking import ColumnCheck, DataCheck, Misfit, check_data
from sudare.study._contract import (
    Categories,
    Column,
    Feature,
    Model,
    Number,
    Person,
    Study,
    Target,
    Terms,
    label_text,
)
from sudare.study._drafts import Guess, draft_study, guess, look_at
from sudare.study._reading import reading_told
from sudare.study._sources import GAPS, header, raw_content, texts_of
from sudare.study._tables import (
    Block,
    Labelled,
    complete,
    persons_of,
    read_blocks,
    read_every_row,
    read_labelled,
    read_table,
)
from sudare.study._text import Problem, StudyInvalid, parse_study, read_study

__all__ = [
    "GAPS",
    "Block",
    "Categories",
    "Column",
    "ColumnCheck",
    "DataCheck",
    "Feature",
    "Guess",
    "Labelled",
    "Misfit",
    "Model",
    "Number",
    "Person",
    "Problem",
    "Study",
    "StudyInvalid",
    "Target",
    "Terms",
    "check_data",
    "complete",
    "draft_study",
    "guess",
    "header",
    "label_text",
    "look_at",
    "parse_study",
    "persons_of",
    "raw_content",
    "read_blocks",
    "read_every_row",
    "read_labelled",
    "read_study",
    "read_table",
    "reading_told",
    "texts_of",
]
