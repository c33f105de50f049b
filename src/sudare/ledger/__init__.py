"""The privacy budget of data sets, in a file or a shared database."""

from sudare.ledger._accounts import APPROVED, Account, BudgetExceeded, Entry, Receipt, Recorded
from sudare.ledger._book import Ledger, rekey
from sudare.ledger._chain import Anchor, Reason
from sudare.ledger._databases import LedgerError
from sudare.ledger._marks import Mark, Prints
from sudare.ledger._policy import Policy

__all__ = [
    "APPROVED",
    "Account",
    "Anchor",
    "BudgetExceeded",
    "Entry",
    "Ledger",
    "LedgerError",
    "Mark",
    "Policy",
    "Prints",
    "Reason",
    "Receipt",
    "Recorded",
    "rekey",
]
