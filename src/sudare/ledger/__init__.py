"""The privacy budget of data sets, in a file or a shared database."""

from sudare.ledger.book import Account, BudgetExceeded, Entry, Ledger, Receipt
from sudare.ledger.databases import LedgerError

__all__ = ["Account", "BudgetExceeded", "Entry", "Ledger", "LedgerError", "Receipt"]
