"""Audits: does a mechanism keep the privacy it claims?

`audit` runs a mechanism on two neighbouring inputs and looks for statistical evidence against
its claim. `audit_exact` integrates known output densities instead. `catalogue` lists
known mistakes with their corrections. An audit can refute a claim; it cannot prove one.
"""

from sudare.audit.blackbox import Mechanism, audit, repeat
from sudare.audit.cases import Case
from sudare.audit.catalogue import catalogue
from sudare.audit.exact import audit_exact, hockey_stick, worst_log_ratio
from sudare.audit.findings import ExactFinding, Finding
from sudare.audit.own import load_case

__all__ = [
    "Case",
    "ExactFinding",
    "Finding",
    "Mechanism",
    "audit",
    "audit_exact",
    "catalogue",
    "hockey_stick",
    "load_case",
    "repeat",
    "worst_log_ratio",
]
