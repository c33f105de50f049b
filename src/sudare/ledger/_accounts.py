"""What a ledger tells: accounts with their entries, receipts, and why a spend was refused."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from sudare.foundations import checks, privacy
from sudare.foundations.privacy import Event, Guarantee
from sudare.ledger import _filters as filters

APPROVED = "approval-"
"""How the parts are called in which approvals are kept."""


class BudgetExceeded(checks.PrivacyError):
    """The spend would go over the cap; it was refused, and nothing was charged."""

    def __init__(self, account: "Account", event: Event) -> None:
        events = (*account.spent.events, event)
        self.cap, self.spent = account.epsilon, account.enforced.epsilon
        self.requested = Guarantee((event,), account.delta).epsilon()
        self.together = filters.enforced(events, account.epsilon, account.delta).epsilon
        self.remaining = account.remaining
        if account.overdrawn:
            more = account.overdrawn
        elif math.isinf(self.together):
            more = "the request needs more δ than is left, whatever its ε"
        else:
            more = (
                f"with the requested ε = {self.requested:.6g} it would come to "
                f"{self.together:.6g}, {self.together - self.cap:.6g} too much"
            )
        fixed = Guarantee(events, account.delta).epsilon()
        if fixed <= self.cap * (1 + filters.ROUNDING):
            more += (
                f" (had all prices been fixed beforehand it would be {fixed:.6g}, but a ledger "
                "must hold for prices chosen after seeing earlier releases)"
            )
        super().__init__(
            f"Data set {account.dataset!r} has ε = {self.remaining:.6g} of {self.cap:g} left at "
            f"δ = {account.delta:g}; {more}. Nothing was spent"
        )


@dataclass(frozen=True)
class Receipt:
    """Proof of a spend; `chain` also vouches for every entry before it."""

    dataset: str
    number: int
    request: str
    event: Event
    moment: str
    chain: str
    repeated: bool = False
    """The request had been charged before; this time nothing was."""


class Recorded(NamedTuple):
    """One line of the ledger as an auditor sees it."""

    receipt: Receipt
    purpose: str
    kept: dict[str, str]
    """SHA-256 of what was kept under it, by the name of the part; "" names the release itself."""

    @property
    def released(self) -> bool:
        """Whether something was made of it; an approval is none."""
        return any(not part.startswith(APPROVED) for part in self.kept)


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    number: int
    event: Event
    purpose: str
    moment: str
    released: bool


@dataclass(frozen=True)
class Account:
    """A data set's cap and what has been charged to it."""

    dataset: str
    epsilon: float
    delta: float
    opened: str
    entries: tuple[Entry, ...]

    @property
    def spent(self) -> Guarantee:
        """What all entries promise together if their prices were fixed beforehand: information."""
        return privacy.Guarantee(tuple(entry.event for entry in self.entries), self.delta)

    @property
    def enforced(self) -> filters.Cost:
        """What they cost however their prices were chosen: the number that the cap is held to."""
        return filters.enforced(self.spent.events, self.epsilon, self.delta)

    @property
    def remaining(self) -> float:
        """ε left at the cap's δ, by simple subtraction; small spends may compose to less."""
        left = self.epsilon - self.enforced.epsilon
        return left if left > self.epsilon * filters.ROUNDING else 0.0

    @property
    def overdrawn(self) -> str:
        """Said of entries that an earlier version accepted, and that cost more than the cap now."""
        cost = self.enforced.epsilon
        if cost <= self.epsilon * (1 + filters.ROUNDING):
            return ""
        return (
            "its entries were accepted by an earlier version, which took prices as fixed "
            f"beforehand; however chosen they cost {_told(cost)}, so nothing more can be spent"
        )


def _told(epsilon: float) -> str:
    return "more δ than the cap has" if math.isinf(epsilon) else f"ε = {epsilon:.6g}"
