"""The privacy budget of data sets, in a file or a shared database."""

from sudare.ledger._accounts import Account, BudgetExceeded, Entry, Receipt, Recorded
from sudare.ledger._book import Ledger, rekey
from sudare.ledger._chain import Anchor, Reason
from sudare.ledger._databases import LedgerError
from sudare.ledger._marks import Mark, Prints

__all__ = [
    "Account",
    "Anchor",
    "BudgetExceeded",
    "Entry",
    "Ledger",
    "LedgerError",
    "Mark",
    "Prints",
    "Reason",
    "Receipt",
    "Recorded",
    "rekey",
]
