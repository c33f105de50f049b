"""Audits: does a mechanism keep the privacy it claims?

`audit` runs a mechanism on two neighbouring inputs and looks for statistical evidence against
its claim. `audit_exact` integrates known output densities instead. `catalogue` lists
known mistakes with their corrections. An audit can refute a claim; it cannot prove one.
"""

from sudare.audit._blackbox import Mechanism, audit, repeat
from sudare.audit._cases import Case
from sudare.audit._catalogue import catalogue
from sudare.audit._exact import Domain, LogDensity, audit_exact, hockey_stick, worst_log_ratio
from sudare.audit._findings import ExactFinding, Finding
from sudare.audit._own import load_case
from sudare.audit._posteriors import normal_mean

__all__ = [
    "Case",
    "Domain",
    "ExactFinding",
    "Finding",
    "LogDensity",
    "Mechanism",
    "audit",
    "audit_exact",
    "catalogue",
    "hockey_stick",
    "load_case",
    "normal_mean",
    "repeat",
    "worst_log_ratio",
]
