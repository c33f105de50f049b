"""The privacy budget of data sets: append-only, and charged before any noise is drawn.

A data set is opened with a cap (ε, δ). `spend` adds an event only if all events of the data set
together stay within the cap, composed by `sudare.privacy.account`; when it returns, the entry is on
disk. A crash after that leaves the budget spent and nothing released: too much is charged, never
too little.

A spend can carry a *request*, the name of one particular release. Asked again for the same request
the ledger returns the first receipt and charges nothing, and hands out the release that was kept
under it; a new draw is a new request. Entries are chained by hashes, so that a ledger edited
behind sudare's back is noticed.

A data set is known by a keyed fingerprint of its contents: a copy under another name is recognised.
The key never leaves the ledger, so the fingerprint says nothing to anyone else.
"""

import hashlib
import hmac
import math
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from sudare import checks, privacy
from sudare.ledger.databases import Database, LedgerError, Transaction, connect
from sudare.privacy import Event, Guarantee

_VERSION = "1"
_ROUNDING = 1e-9
"""Composed ε's are rounded up in the last digits; ten spends of a tenth are still one."""
_CHANGED = "{} the ledger was changed behind sudare's back: restore a backup. Nothing was spent"


class BudgetExceeded(checks.PrivacyError):
    """The spend would go over the cap; it was refused, and nothing was charged."""

    def __init__(self, account: "Account", spent: float, alone: float, together: float) -> None:
        self.cap, self.spent, self.requested, self.together = (
            account.epsilon,
            spent,
            alone,
            together,
        )
        self.remaining = account.remaining
        if math.isinf(together):
            more = "the request needs more δ than is left, whatever its ε"
        else:
            more = (
                f"with the requested ε = {alone:.6g} it would come to {together:.6g}, "
                f"{together - self.cap:.6g} too much"
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
        """What all entries promise together."""
        return privacy.Guarantee(tuple(entry.event for entry in self.entries), self.delta)

    @property
    def remaining(self) -> float:
        """ε left at the cap's δ, by simple subtraction; small spends may compose to less."""
        if not self.entries:
            return self.epsilon
        left = self.epsilon - self.spent.epsilon()
        return left if left > self.epsilon * _ROUNDING else 0.0


class Ledger:
    """A ledger in an SQLite file or a PostgreSQL database; made on first use."""

    def __init__(self, url: str | Path) -> None:
        self._database: Database = connect(url)
        try:
            with self._database.transaction() as step:
                self._prepare(step)
                _verify(step)
                self._key = _meta(step, "fingerprint-key").encode()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def fingerprint(self, content: Iterable[bytes]) -> str:
        """The keyed fingerprint of a data set's bytes, the same only within this ledger.

        However the bytes are cut into parts.
        """
        digest = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in content:
            digest.update(part)
        return digest.hexdigest()

    def open(self, dataset: str, fingerprint: str, epsilon: float, delta: float = 0.0) -> Account:
        """Give a data set its cap. Again with the same cap it changes nothing; a cap never moves.

        The same contents under another name are refused: they are the same people.
        """
        _check_name(dataset)
        checks.positive(epsilon=epsilon)
        checks.delta_like(delta=delta)
        with self._database.transaction() as step:
            _verify(step)
            for name, known, cap, slack in step.rows(
                "SELECT name, fingerprint, epsilon, delta FROM ledger_datasets "
                "WHERE name = ? OR fingerprint = ?",
                dataset,
                fingerprint,
            ):
                if name != dataset:
                    raise checks.PrivacyError(
                        f"These data are already in the ledger as {name!r}: the budget belongs to "
                        "the people in them, not to the file's name"
                    )
                if known != fingerprint:
                    raise checks.PrivacyError(
                        f"Data set {dataset!r} has other contents than when it was opened: open "
                        "new data under a new name"
                    )
                if (float.fromhex(cap), float.fromhex(slack)) != (float(epsilon), float(delta)):
                    raise checks.PrivacyError(
                        f"Data set {dataset!r} was opened with ε = {float.fromhex(cap):g}, "
                        f"δ = {float.fromhex(slack):g}, and a cap is never moved"
                    )
                return self._account(step, dataset)
            row = (dataset, fingerprint, float(epsilon).hex(), float(delta).hex(), _now())
            seal = _link(_meta(step, "fingerprint-key"), 0, *row)
            step.run("INSERT INTO ledger_datasets VALUES (?, ?, ?, ?, ?, ?)", *row, seal)
            return self._account(step, dataset)

    def named(self, fingerprint: str) -> str | None:
        """Under which name data with this fingerprint were opened, if they were."""
        with self._database.transaction() as step:
            found = step.rows("SELECT name FROM ledger_datasets WHERE fingerprint = ?", fingerprint)
        return str(found[0][0]) if found else None

    def datasets(self) -> list[str]:
        """Every data set opened here."""
        with self._database.transaction() as step:
            found = step.rows("SELECT name FROM ledger_datasets ORDER BY name")
        return [str(name) for (name,) in found]

    def account(self, dataset: str) -> Account:
        """A data set's cap and entries."""
        with self._database.transaction() as step:
            return self._account(step, dataset)

    def spend(
        self, dataset: str, event: Event, *, request: str | None = None, purpose: str = ""
    ) -> Receipt:
        """Charge an event, durably, before any noise is drawn for it; or refuse.

        `request` names the release it is for: asked again, the first receipt comes back.
        """
        request = secrets.token_hex(16) if request is None else request
        if not (request.strip() and request.isprintable() and purpose.isprintable()):
            raise checks.InvalidInput("Expected printable texts for request and purpose")
        with self._database.transaction() as step:
            account = self._account(step, dataset)
            before = step.rows(
                "SELECT number, dataset, event, moment, chain FROM ledger_events WHERE request = ?",
                request,
            )
            if before:
                return _repeat(before[0], dataset, event, request)
            _check_budget(account, event)
            number, chain = _last(step)
            moment, line = _now(), privacy.encode([event]).decode()
            link = _link(chain, number + 1, dataset, line, purpose, request, moment)
            step.run(
                "INSERT INTO ledger_events VALUES (?, ?, ?, ?, ?, ?, ?)",
                number + 1,
                dataset,
                line,
                purpose,
                request,
                moment,
                link,
            )
        return Receipt(dataset, number + 1, request, event, moment, link)

    def keep(self, receipt: Receipt, payload: bytes) -> bytes:
        """Keep the release made under a receipt; the first to be kept wins, and is returned."""
        with self._database.transaction() as step:
            kept = _kept(step, receipt.request)
            charged = "SELECT 1 FROM ledger_events WHERE request = ? AND chain = ?"
            if not step.rows(charged, receipt.request, receipt.chain):
                raise checks.PrivacyError("This ledger has no such spend: nothing was kept")
            if kept is None:
                seal = hashlib.sha256(payload).hexdigest()
                step.run(
                    "INSERT INTO ledger_releases VALUES (?, ?, ?)", receipt.request, payload, seal
                )
        return payload if kept is None else kept

    def kept(self, request: str) -> bytes | None:
        """The release kept under a request, if it got that far."""
        with self._database.transaction() as step:
            return _kept(step, request)

    def verify(self) -> int:
        """Check the chain from the first entry to the last; the number of entries."""
        with self._database.transaction() as step:
            return _verify(step)

    def _account(self, step: Transaction, dataset: str) -> Account:
        _verify(step)
        found = step.rows(
            "SELECT epsilon, delta, opened FROM ledger_datasets WHERE name = ?", dataset
        )
        if not found:
            raise checks.InvalidInput(
                f"Data set {dataset!r} is not in the ledger: open it with its cap first"
            )
        epsilon, delta, opened = found[0]
        entries = tuple(
            Entry(number, _event(event), purpose, moment, bool(released))
            for number, event, purpose, moment, released in step.rows(
                "SELECT e.number, e.event, e.purpose, e.moment, r.request IS NOT NULL "
                "FROM ledger_events e LEFT JOIN ledger_releases r ON r.request = e.request "
                "WHERE e.dataset = ? ORDER BY e.number",
                dataset,
            )
        )
        return Account(dataset, float.fromhex(epsilon), float.fromhex(delta), opened, entries)

    def _prepare(self, step: Transaction) -> None:
        """Make the tables, or see that they are not from a later version."""
        if not step.rows(self._database.present):
            if self._database.foreign and step.rows(self._database.foreign):
                raise LedgerError(
                    f"{self._database.place} is a database of something else, not a ledger: choose "
                    "another file. Nothing was spent"
                )
            step.run(self._database.schema)
            step.run("INSERT INTO ledger_meta VALUES (?, ?)", "version", _VERSION)
            step.run(
                "INSERT INTO ledger_meta VALUES (?, ?)", "fingerprint-key", secrets.token_hex(32)
            )
        elif (version := _meta(step, "version")) != _VERSION:
            raise LedgerError(
                f"{self._database.place} was written by a later sudare (ledger version {version}); "
                "update sudare. Nothing was spent"
            )


def _check_budget(account: Account, event: Event) -> None:
    """Refuse what would not fit, with the numbers that say why."""
    together = Guarantee((*account.spent.events, event), account.delta)
    total = together.epsilon()
    if total <= account.epsilon * (1 + _ROUNDING):
        return
    alone = Guarantee((event,), account.delta).epsilon()
    spent = account.spent.epsilon() if account.entries else 0.0
    raise BudgetExceeded(account, spent, alone, total)


def _repeat(found: tuple[Any, ...], dataset: str, event: Event, request: str) -> Receipt:
    number, of, line, moment, chain = found
    if of != dataset or _event(line) != event:
        raise checks.PrivacyError(
            "This request was charged before, for other data or at another price: a changed "
            "release needs a request of its own"
        )
    return Receipt(dataset, number, request, event, moment, chain, repeated=True)


def _verify(step: Transaction) -> int:
    """Every cap and every entry as they were written, and every release with its entry.

    What this cannot see is a ledger that was put back to an earlier state as a whole: keep the
    receipts, which are printed in the releases.
    """
    key, names = _meta(step, "fingerprint-key"), set()
    for *row, seal in step.rows(
        "SELECT name, fingerprint, epsilon, delta, opened, seal FROM ledger_datasets"
    ):
        if _link(key, 0, *row) != seal:
            raise LedgerError(_CHANGED.format("The cap of a data set in"))
        names.add(row[0])
    chain, count = "", 0
    for number, dataset, line, purpose, request, moment, link in step.rows(
        "SELECT number, dataset, event, purpose, request, moment, chain "
        "FROM ledger_events ORDER BY number"
    ):
        count += 1
        chain = _link(chain, number, dataset, line, purpose, request, moment)
        if number != count or chain != link or dataset not in names:
            raise LedgerError(_CHANGED.format(f"Entry {count} of"))
    if step.rows(
        "SELECT 1 FROM ledger_releases WHERE request NOT IN (SELECT request FROM ledger_events)"
    ):
        raise LedgerError(_CHANGED.format("The end of"))
    return count


def _event(line: str) -> Event:
    try:
        (event,) = privacy.decode(line)
    except ValueError:
        raise LedgerError(
            "The ledger holds an event that this sudare does not know: update it. Nothing was spent"
        ) from None
    return event


def _link(chain: str, number: int, *fields: str) -> str:
    """The hash that ties an entry to all before it."""
    digest = hashlib.sha256(f"{chain}\n{number}".encode())
    for field in fields:
        # A damaged file can hold anything; what is not text has never been written here.
        part = field.encode() if isinstance(field, str) else b"\xff"
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _last(step: Transaction) -> tuple[int, str]:
    found = step.rows("SELECT number, chain FROM ledger_events ORDER BY number DESC LIMIT 1")
    return (int(found[0][0]), str(found[0][1])) if found else (0, "")


def _kept(step: Transaction, request: str) -> bytes | None:
    found = step.rows("SELECT payload, seal FROM ledger_releases WHERE request = ?", request)
    if not found:
        return None
    payload, seal = bytes(found[0][0]), found[0][1]
    if hashlib.sha256(payload).hexdigest() != seal:
        raise LedgerError(_CHANGED.format("A release in"))
    return payload


def _meta(step: Transaction, name: str) -> str:
    found = step.rows("SELECT value FROM ledger_meta WHERE name = ?", name)
    if not found:
        raise LedgerError("The ledger is damaged: restore it from a backup. Nothing was spent")
    return str(found[0][0])


def _check_name(dataset: str) -> None:
    if not (isinstance(dataset, str) and dataset.strip() and dataset.isprintable()):
        raise checks.InvalidInput("Expected a printable name for the data set")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
