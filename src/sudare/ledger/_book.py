"""The privacy budget of data sets: append-only, and charged before any noise is drawn.

A data set is opened with a cap (ε, δ). `spend` adds an event only if all events of the data set
together stay within the cap, also when each price was chosen after seeing what was released before
(`sudare.ledger._filters`); when it returns, the entry is on disk. A crash after that leaves the
budget spent and nothing released: too much is charged, never too little.

A spend can carry a *request*, the name of one particular release. Asked again for the same request
the ledger returns the first receipt and charges nothing, and hands out the release that was kept
under it; a new draw is a new request. Entries are chained under a key that is kept in a file of its
own, so that a ledger edited or put back behind sudare's back is noticed (`sudare.ledger._chain`).

A data set is known by a keyed fingerprint of its contents: a copy under another name is recognised.
The key never leaves the ledger, so the fingerprint says nothing to anyone else.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

from sudare.foundations import checks, privacy
from sudare.foundations.privacy import Event
from sudare.ledger import _chain as chain
from sudare.ledger import _filters as filters
from sudare.ledger import _keys as keys
from sudare.ledger import _marks as marks
from sudare.ledger._accounts import (
    APPROVED,
    Account,
    BudgetExceeded,
    Entry,
    Receipt,
    Recorded,
)
from sudare.ledger._databases import Database, LedgerError, Transaction, connect
from sudare.ledger._policy import (
    Policy,
    add_policy,
    check_approvals,
    policies,
    renew_policy,
)
from sudare.storage.files import replace_file

_VERSION, _UNKEYED = "2", "1"


class Ledger:
    """A ledger in an SQLite file or a PostgreSQL database; made on first use."""

    def __init__(self, url: str | Path) -> None:
        self._database: Database = connect(url)
        self._key_path = keys.location(self._database)
        try:
            with self._database.transaction() as step:
                self._prepare(step)
                self._verify(step)
                self._fingerprint_key = chain.meta(step)["fingerprint-key"].encode()
            if self._key().mark.anchors == 0:
                self._move_mark("the ledger is made; open it again")
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
        digest = hmac.new(self._fingerprint_key, digestmod=hashlib.sha256)
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
            self._verify(step)
            admitted = {each.content: each.dataset for each in marks.read(step) if each.content}
            owner = admitted.get(fingerprint)
            for name, known, cap, slack in step.rows(
                "SELECT name, fingerprint, epsilon, delta FROM ledger_datasets "
                "WHERE name = ? OR fingerprint = ? OR name = ?",
                dataset,
                fingerprint,
                owner or dataset,
            ):
                if name != dataset:
                    raise checks.PrivacyError(
                        f"These data are already in the ledger as {name!r}: the budget belongs to "
                        "the people in them, not to the file's name"
                    )
                if known != fingerprint and owner != dataset:
                    raise checks.PrivacyError(
                        f"Data set {dataset!r} has other contents than when it was opened. If they "
                        "are about the same people (corrected, or longer), they belong to the same "
                        "budget: sudare ledger open … --same-people. Other people get a new name"
                    )
                if (float.fromhex(cap), float.fromhex(slack)) != (float(epsilon), float(delta)):
                    raise checks.PrivacyError(
                        f"Data set {dataset!r} was opened with ε = {float.fromhex(cap):g}, "
                        f"δ = {float.fromhex(slack):g}, and a cap is never moved"
                    )
                return self._account(step, dataset)
            keys.check_writable(self._key_path)
            row = (dataset, fingerprint, float(epsilon).hex(), float(delta).hex(), chain.now())
            seal = chain.dataset_seal(self._key(), self._fingerprint_key.decode(), *row)
            step.run("INSERT INTO ledger_datasets VALUES (?, ?, ?, ?, ?, ?)", *row, seal)
            account = self._account(step, dataset)
        self._move_mark("the data set is open, and nothing was spent")
        return account

    def named(self, fingerprint: str) -> str | None:
        """Under which name data with this fingerprint were opened, if they were."""
        known = self.known(fingerprint)
        return None if known is None else known[0]

    def known(self, fingerprint: str) -> tuple[str, str] | None:
        """The data set with this fingerprint, and the fingerprint its contents were opened as."""
        with self._database.transaction() as step:
            found = step.rows("SELECT name FROM ledger_datasets WHERE fingerprint = ?", fingerprint)
            if found:
                return str(found[0][0]), fingerprint
            others = (mark for mark in marks.read(step) if mark.content == fingerprint)
            return next(((mark.dataset, mark.version) for mark in others), None)

    def admit(self, dataset: str, fingerprint: str, version: str | None = None) -> None:
        """Let other contents draw on the budget of a data set: they are about the same people.

        `version` is the fingerprint of contents of this data set that hold the same rows; without
        it they are a version of their own, from which new releases are made.
        """
        with self._database.transaction() as step:
            self._account(step, dataset)
            mark = marks.Mark(dataset=dataset, version=version or fingerprint, content=fingerprint)
            marks.add(step, mark)

    def prints(self, reading: str, rows: Iterable[bytes]) -> marks.Prints:
        """What the rows of a table are recognised by under one reading."""
        return marks.Prints(self._key(), reading, rows)

    def add_mark(self, mark: marks.Mark) -> None:
        """Keep what the rows of a data set are recognised by."""
        with self._database.transaction() as step:
            self._account(step, mark.dataset)
            marks.add(step, mark)

    def all_marks(self) -> list[marks.Mark]:
        """What the data sets here are recognised by."""
        with self._database.transaction() as step:
            return [mark for mark in marks.read(step) if mark.reading]

    def receipts(self, dataset: str | None = None) -> frozenset[str]:
        """The chain of every receipt given out for a data set, or for all."""
        with self._database.transaction() as step:
            self._verify(step)
            found = step.rows("SELECT dataset, chain FROM ledger_events")
        return frozenset(chain for of, chain in found if dataset in (None, of))

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
        self,
        dataset: str,
        event: Event,
        *,
        request: str | None = None,
        purpose: str = "",
        approvals: int = 0,
    ) -> Receipt:
        """Charge an event, durably, before any noise is drawn for it; or refuse.

        `request` names the release it is for: asked again, the first receipt comes back.
        `approvals` says how many approvers of the ledger's policy have signed it.
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
                receipt = _repeat(before[0], dataset, event, request)
            else:
                check_approvals(self._policies(step)[-1], approvals)
                _check_budget(account, event)
                keys.check_writable(self._key_path)
                receipt = self._enter(step, dataset, event, request, purpose)
        self._move_mark(
            f"the spend is on record: ask again for request {request!r}, it is charged once"
        )
        return receipt

    def policies(self) -> list[Policy]:
        """What this ledger has asked for before a spend, oldest first; the last one holds."""
        with self._database.transaction() as step:
            self._verify(step)
            return self._policies(step)

    def set_policy(self, policy: Policy) -> Policy:
        """Ask for approvals from now on; what was asked for before stays on record."""
        with self._database.transaction() as step:
            self._verify(step)
            keys.check_writable(self._key_path)
            dated = add_policy(step, self._key(), policy)
        self._move_mark("the policy is on record")
        return dated

    def check_room(self, dataset: str, event: Event) -> None:
        """Refuse as `spend` would, if it would; nothing is charged."""
        with self._database.transaction() as step:
            _check_budget(self._account(step, dataset), event)

    def keep(self, receipt: Receipt, payload: bytes, part: str = "") -> bytes:
        """Keep the release made under a receipt; the first to be kept wins, and is returned.

        A release that is made in several steps, all paid for at once, is kept in named parts.
        """
        if part and not re.fullmatch(r"[\w-]{1,40}", part):
            raise checks.InvalidInput("Expected a short word to name a part of a release")
        with self._database.transaction() as step:
            self._verify(step)
            kept = _kept(step, receipt.request, part)
            charged = "SELECT 1 FROM ledger_events WHERE request = ? AND chain = ?"
            if not step.rows(charged, receipt.request, receipt.chain):
                raise checks.PrivacyError("This ledger has no such spend: nothing was kept")
            if kept is None:
                name = f"{receipt.request}#{part}" if part else receipt.request
                seal = chain.release_seal(self._key(), name, payload)
                row = (receipt.request, *([part] if part else []), payload, seal)
                table = "ledger_parts" if part else "ledger_releases"
                step.run(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", *row)
        self._move_mark("the release is kept; run it again")
        return payload if kept is None else kept

    def kept(self, request: str, part: str = "") -> bytes | None:
        """The release (or the part of it) kept under a request, if it got that far."""
        with self._database.transaction() as step:
            self._verify(step)
            return _kept(step, request, part)

    def keep_once(
        self, receipt: Receipt, make: Callable[[], bytes], part: str = ""
    ) -> tuple[bytes, bool]:
        """The release under a receipt, and whether it was kept before; else `make` draws it now."""
        try:
            kept = self.kept(receipt.request, part)
            return (self.keep(receipt, make(), part), False) if kept is None else (kept, True)
        except LedgerError as problem:
            # The ledger speaks of its last step, which spent nothing; the spend came before it.
            said = str(problem).removesuffix("; nothing was spent")
            raise LedgerError(
                f"{said}; the spend is on record, and running it again costs nothing more"
            ) from None

    def receipt(self, request: str) -> Receipt | None:
        """The receipt of a request that was charged before, at the price of that time."""
        with self._database.transaction() as step:
            found = step.rows(
                "SELECT dataset, number, event, moment, chain FROM ledger_events WHERE request = ?",
                request,
            )
        if not found:
            return None
        dataset, number, line, moment, chain = found[0]
        return Receipt(dataset, number, request, _event(line), moment, chain, repeated=True)

    def record(self) -> list[Recorded]:
        """Every entry, in order, with digests of what was kept under it."""
        with self._database.transaction() as step:
            self._verify(step)
            kept: dict[str, dict[str, str]] = {}
            for request, part, seal in step.rows(
                "SELECT request, '' AS part, seal FROM ledger_releases "
                "UNION ALL SELECT request, part, seal FROM ledger_parts ORDER BY request, part"
            ):
                kept.setdefault(request, {})[part] = str(seal).partition(":")[0]
            return [
                Recorded(
                    Receipt(dataset, number, request, _event(line), moment, link),
                    purpose,
                    kept.get(request, {}),
                )
                for number, dataset, line, purpose, request, moment, link in step.rows(
                    "SELECT number, dataset, event, purpose, request, moment, chain "
                    "FROM ledger_events ORDER BY number"
                )
            ]

    def verify(self) -> int:
        """Check the chain from the first entry to the last; the number of entries."""
        with self._database.transaction() as step:
            return self._verify(step).entries

    def anchors(self) -> list[chain.Anchor]:
        """When, and why, a key began to vouch for this ledger; the last is the key of today."""
        with self._database.transaction() as step:
            self._verify(step)
            return chain.anchors(chain.meta(step))

    def _enter(
        self, step: Transaction, dataset: str, event: Event, request: str, purpose: str
    ) -> Receipt:
        last = chain.position(step)
        number, moment, line = last.entries + 1, chain.now(), privacy.encode([event]).decode()
        fields = (dataset, line, purpose, request, moment)
        link = chain.link(self._key(), last.chain, number, *fields)
        step.run("INSERT INTO ledger_events VALUES (?, ?, ?, ?, ?, ?, ?)", number, *fields, link)
        return Receipt(dataset, number, request, event, moment, link)

    def _key(self) -> keys.LedgerKey:
        """Read anew each time: another process may have moved the mark, or given a new key."""
        return keys.require_key(self._key_path)

    def _policies(self, step: Transaction) -> list[Policy]:
        return [Policy(), *policies(chain.meta(step), self._key())]

    def _verify(self, step: Transaction) -> keys.Mark:
        return chain.verify(step, self._key(), self._key_path)

    def _move_mark(self, outcome: str) -> None:
        _move_mark(self._database, self._key_path, outcome)

    def _account(self, step: Transaction, dataset: str) -> Account:
        self._verify(step)
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
                "SELECT number, event, purpose, moment, "
                "EXISTS (SELECT 1 FROM ledger_releases r WHERE r.request = e.request) OR "
                "EXISTS (SELECT 1 FROM ledger_parts p WHERE p.request = e.request "
                f"AND substr(p.part, 1, {len(APPROVED)}) <> '{APPROVED}') "
                "FROM ledger_events e WHERE dataset = ? ORDER BY number",
                dataset,
            )
        )
        return Account(dataset, float.fromhex(epsilon), float.fromhex(delta), opened, entries)

    def _prepare(self, step: Transaction) -> None:
        """Make the tables, or give a key to those that have none, or see what version they are."""
        if not step.rows(self._database.present):
            if self._database.foreign and step.rows(self._database.foreign):
                raise LedgerError(
                    f"{self._database.place} is a database of something else, not a ledger: choose "
                    "another file. Nothing was spent"
                )
            key = self._first_key(
                f"The ledger that {self._key_path} is the key of is gone: restore it from a backup "
                f"to {self._database.place}; for a new ledger, choose another place. Nothing was "
                "spent"
            )
            self._database.create(step)
            step.run("INSERT INTO ledger_meta VALUES (?, ?)", "version", _VERSION)
            step.run(
                "INSERT INTO ledger_meta VALUES (?, ?)", "fingerprint-key", secrets.token_hex(32)
            )
            chain.add_anchor(step, key, chain.Reason.MADE)
            return
        if not step.rows(self._database.extended):
            self._database.extend(step)
        lines = chain.meta(step)
        if (version := lines["version"]) not in (_VERSION, _UNKEYED):
            raise LedgerError(
                f"{self._database.place} was written by a later sudare (ledger version {version}); "
                "update sudare. Nothing was spent"
            )
        if version == _UNKEYED and not chain.anchors(lines):
            chain.verify_unkeyed(step)
            key = self._first_key(chain.CHANGED.format("The beginning of"))
            chain.add_anchor(step, key, chain.Reason.UPGRADED)

    def _first_key(self, refusal: str) -> keys.LedgerKey:
        """A key for a ledger that has none yet; one that has vouched for a ledger is refused."""
        key = keys.read_key(self._key_path)
        if key is None:
            key = keys.new_key()
            keys.write_key(self._key_path, key)
        elif key.mark.anchors:
            raise LedgerError(refusal)
        return key


def rekey(url: str | Path) -> chain.Anchor:
    """Give a ledger a new key, which vouches for what is there now, and put that on record.

    For a key that was lost, a ledger that had to be put back from an older copy, or a key that too
    many know. Entries and caps stay as they are; whether all was in order under the key before is
    part of the record.
    """
    database = connect(url)
    path, before = keys.location(database), None
    try:
        with database.transaction() as step:
            if not step.rows(database.present):
                raise checks.InvalidInput(f"There is no ledger at {database.place}")
            key = keys.succeeding(path)
            chain.add_anchor(step, key, _soundness(step, path))
            chain.verify(step, key, path)
            renew_policy(step, key)
            anchor = chain.anchors(chain.meta(step))[-1]
            before = path.read_bytes() if path.exists() else None
            keys.write_key(path, key)
        before = None
        _move_mark(database, path, "the new key is in force")
    finally:
        if before is not None:  # the ledger does not know the new key
            replace_file(path, before, 0o600)
        database.close()
    return anchor


def _move_mark(database: Database, path: Path, outcome: str) -> None:
    """After a commit, note in the key file how far the ledger has come.

    A crash in between leaves the ledger ahead of the mark, as it may be. The ledger's own lock is
    held meanwhile, so that of several writers each sees the mark of the one before.
    """
    try:
        with database.transaction() as step:
            key, reached = keys.require_key(path), chain.position(step)
            if reached != key.mark and reached.covers(key.mark):
                keys.write_key(path, key.moved_to(reached))
    except LedgerError as problem:
        said = re.sub("[;.] [nN]othing was spent$", "", str(problem))
        raise LedgerError(f"{said}; {outcome}") from None


def _soundness(step: Transaction, path: Path) -> chain.Reason:
    try:
        key = keys.read_key(path)
        if key is None:
            return chain.Reason.REKEYED_UNCHECKED
        chain.verify(step, key, path)
    except LedgerError:
        return chain.Reason.REKEYED_UNCHECKED
    return chain.Reason.REKEYED


def _check_budget(account: Account, event: Event) -> None:
    """Refuse what would not fit, with the numbers that say why."""
    events = (*account.spent.events, event)
    cost = filters.enforced(events, account.epsilon, account.delta).epsilon
    if cost > account.epsilon * (1 + filters.ROUNDING):
        raise BudgetExceeded(account, event)


def _repeat(found: tuple[Any, ...], dataset: str, event: Event, request: str) -> Receipt:
    number, of, line, moment, link = found
    if of != dataset or _event(line) != event:
        raise checks.PrivacyError(
            "This request was charged before, for other data or at another price: a changed "
            "release needs a request of its own"
        )
    return Receipt(dataset, number, request, event, moment, link, repeated=True)


def _event(line: str) -> Event:
    try:
        (event,) = privacy.decode(line)
    except ValueError:
        raise LedgerError(
            "The ledger holds an event that this sudare does not know: update it. Nothing was spent"
        ) from None
    return event


def _kept(step: Transaction, request: str, part: str = "") -> bytes | None:
    asked = "SELECT payload, seal FROM {} WHERE request = ?"
    if part:
        found = step.rows(asked.format("ledger_parts") + " AND part = ?", request, part)
    else:
        found = step.rows(asked.format("ledger_releases"), request)
    if not found:
        return None
    payload, seal = bytes(found[0][0]), found[0][1]
    if not chain.is_sealed(payload, seal):
        raise LedgerError(chain.CHANGED.format("A release in"))
    return payload


def _check_name(dataset: str) -> None:
    if not (isinstance(dataset, str) and dataset.strip() and dataset.isprintable()):
        raise checks.InvalidInput("Expected a printable name for the data set")
