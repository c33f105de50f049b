"""The collector itself: validates reports, counts them durably, issues tickets, closes rounds.

A report is validated by its ticket's mark, its slot, the clock, and whether it was counted before.
What `count` calls counted or repeated is on the disk. A round closes by a transaction, after which
no report enters it, and what has been published is read back from the store ever after.

All methods are for one thread, except `history`, `status` and `refused`, which any may call.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.collector import _keys as keys
from sudare.collector._binding import bind_store
from sudare.collector._clock import Schedule, SteadyClock
from sudare.collector._conflicts import Conflicts
from sudare.collector._keys import TicketKeys
from sudare.collector._rounds import History, Round, close_rounds, reopen_rounds
from sudare.collector._sessions import ROLES, Role
from sudare.collector.stores import (
    REASONS,
    Group,
    Store,
    StoreUnavailable,
    Verdict,
    tally,
)
from sudare.counting import RECORD, Survey, Ticket
from sudare.counting.tree import due_in, needed, rounds_of
from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.collector._retention import Retention

__all__ = ["Collector", "Round", "Status", "StoreUnavailable", "Verdict"]

Whole = NDArray[np.int64]
_TOKENS: dict[Role, str] = {"operator": "token", "viewer": "viewer_token"}
"""Under which names a store keeps the tokens' hashes."""
_COUNTED = np.uint8(Verdict.COUNTED)  # numpy compares with this much faster
_CLOSINGS = 16
"""Transactions in which rounds are closed, in one call."""
_PIECE = 10_000
"""Published rounds read at a time."""
_SHOWN = 1000
"""Open rounds that `status` lists at most: with a long `late` there may be many."""
_MOVED_BYTES = 8 << 20
"""Raw reports moved into one file."""
_MOVE_SECONDS = 60.0
"""How long raw reports that are fewer wait in the store for others to share their file."""


class Status(msgspec.Struct, frozen=True):
    """What is going on. Numbers are of all collectors together, others' as of the last refresh."""

    now: float
    round: int | None
    """The round that is open."""
    reporters: dict[int, int]
    """Reports counted so far, for each round that accepts any (of many, the last)."""
    tickets: int
    refused: dict[str, int]
    enrolment: bool
    published: int
    """How many rounds are published."""
    reachable: bool
    """Whether the store answered last time."""
    leap: float = 0.0
    """By how many seconds the clock has leapt: no round is published until it is right again."""
    apart: float = 0.0
    """How far this machine's clock is from the database's: this collector takes no part."""
    collectors: int = 1
    """How many share the store."""


class Collector:
    """One collector of one survey, over one store.

    `key` wraps the ticket keys in the store and must be the same at every start.
    """

    def __init__(
        self,
        survey: Survey,
        store: Store,
        schedule: Schedule,
        *,
        key: bytes | None = None,
        beta: float = 0.05,
        clock: Callable[[], float] = time.time,
        retain: "Retention | None" = None,
    ) -> None:
        checks.proportion(beta=beta)
        self.survey = bind_store(store, survey, key=key)
        if schedule.rounds != self.survey.rounds:
            raise checks.InvalidInput("Expected the schedule of this survey")
        self.store, self.schedule, self.beta, self.clock = store, schedule, beta, clock
        self._retain = retain
        self._moved, self._kept_bytes = time.monotonic(), 0
        self._once = self.survey.slots == 1 and self.survey.method not in ("rappor", "tree")
        self._lock = threading.Lock()
        self._refused: Counter[str] = Counter()
        self._pending: Counter[str] = Counter()
        self._history = History(schedule)
        self._changed: set[int] = set()
        self._sealed = 0
        self._reachable = True
        self._conflicts = Conflicts()
        self._quick = secrets.token_bytes(32)
        self._tokens: dict[Role, bytes | None] = dict.fromkeys(ROLES)
        self._known: dict[Role, tuple[bytes, bytes]] = {}
        self._ticket_keys = TicketKeys(self.survey, store, key)
        self.refresh()
        self._changed.clear()

    def count(self, records: bytes) -> NDArray[np.uint8]:
        """Judge packed records (`sudare.counting.RECORD`): one `Verdict` each.

        Those counted and those repeated are durable when this returns. On `StoreUnavailable` none
        is known to be; sending all of them again does no harm.
        """
        if len(records) % RECORD.itemsize:
            raise checks.InvalidInput(f"Expected whole records of {RECORD.itemsize} bytes")
        reports = np.frombuffer(records, RECORD)
        with self._watched():
            self._take_part()
            verdicts = self._count(reports) if records else np.zeros(0, np.uint8)
        if records and int(verdicts.max()) > Verdict.REPEATED:
            numbers = np.bincount(verdicts, minlength=len(REASONS)).tolist()
            for reason, number in list(zip(REASONS, numbers, strict=True))[2:]:
                self.refused(reason, number)
        return verdicts

    def issue(self, count: int = 1) -> list[Ticket]:
        """New tickets, different from all others, also those of other collectors."""
        checks.count(count=count)
        with self._watched():
            self._take_part()
            tickets = self._ticket_keys.issue(count)
        self._tickets += count
        return tickets

    def derived_key(self, purpose: bytes) -> bytes:
        """A secret for something beside the survey, which all collectors of this store know."""
        return self._ticket_keys.derived(purpose)

    def publish_due(self) -> list[Round]:
        """Close the rounds whose time and grace have passed. Rounds published or revised since the
        last call, also by other collectors. To be called at `next_due`, and about once a second;
        after a long pause `next_due` stays in the past until all have been closed, some thousands a
        call, so that reports get their turn in between. While the clock is in doubt none is closed.
        """
        with self._watched():
            self._look()
            now = self.clock()
            self._follow()
            for _ in range(_CLOSINGS):
                if self.paused or not self._due(now):
                    break
                with self.store.closing() as closing:
                    close_rounds(closing, self.survey, self.schedule, self.beta, now)
                self._follow()
            self.refresh()
        self._tidy()
        changed, self._changed = sorted(self._changed), set()
        return list(self._history.rounds(changed))

    @property
    def paused(self) -> bool:
        """Whether nobody knows what time it is, so that no round is closed."""
        clock = self.clock
        return isinstance(clock, SteadyClock) and bool(clock.leap or clock.apart)

    def reopen(self, *, corrected: bool = False) -> range:
        """Open the rounds again that a wrong clock has closed too early; which they are.

        Refused once an estimate of one has been shown, unless it is to be published again as
        `corrected`, which counts as a revision.
        """
        with self._watched():
            self._look()
            if self.paused:
                raise checks.InvalidInput("First put the clock right, then reopen rounds")
            with self.store.closing() as closing:
                reopened = reopen_rounds(
                    closing,
                    self.survey,
                    self.schedule,
                    self.clock(),
                    corrected=corrected,
                    keeps_serials=self._once,
                )
            self._follow()
        return reopened

    def next_due(self) -> float | None:
        """When the next round is to be published; after the last one None."""
        following = self._progress.published
        return self.schedule.publishes(following) if following < self.survey.rounds else None

    def history(self, since: int = 0) -> tuple[Round, ...]:
        """All published rounds from `since` on, in order."""
        return self._history.rounds(slice(since, None))

    def status(self) -> Status:
        """What is going on now."""
        now = self.clock()
        with self._lock:
            refused = self._refused + self._pending
        return Status(
            now=now,
            round=self.schedule.current(now),
            reporters=self._open,
            tickets=self._tickets,
            refused=dict(refused),
            enrolment=self._enrolment,
            published=len(self._history),
            reachable=self._reachable,
            leap=self.clock.leap if isinstance(self.clock, SteadyClock) else 0.0,
            apart=self.clock.apart if isinstance(self.clock, SteadyClock) else 0.0,
            collectors=self._collectors,
        )

    def refused(self, reason: str, count: int = 1) -> None:
        """Note refusals; they reach the store with the next `refresh`."""
        with self._lock:
            self._pending[reason] += count

    def refresh(self) -> None:
        """Hand the numbers of refusals to the store, and read what other collectors did."""
        with self._watched():
            with self._lock:
                told = +self._pending
            if told:
                self.store.refused(told)
            refused = Counter(self.store.refusals())
            with self._lock:
                self._pending -= told
                self._refused = refused
            meta = self.store.meta()
            self._enrolment = meta["enrolment"] == b"open"
            self._tokens = {role: meta.get(name) for role, name in _TOKENS.items()}
            self._tickets = sum(each.next - each.first for each in self.store.ranges())
            self._collectors = self.store.collectors()
            self._follow()
            rounds = range(*self._accepting())[-_SHOWN:]
            self._open = dict(zip(rounds, self._heard(rounds, due_in), strict=True))

    def set_enrolment(self, open: bool) -> None:
        """Whether people may have tickets; durable, and for the caller of `issue` to heed."""
        with self._watched():
            self.store.set_meta("enrolment", b"open" if open else b"closed")
        self._enrolment = open

    def has_token(self, role: Role = "operator") -> bool:
        """Whether there is a token for this role."""
        return self._tokens[role] is not None

    def kept_token(self, role: Role) -> bytes | None:
        """What is kept of a role's token: its hash."""
        return self._tokens[role]

    def new_token(self, role: Role = "operator") -> str:
        """A new token for a role; the one before is no longer accepted."""
        token = keys.new_token()
        self.set_token(token, role)
        return token

    def set_token(self, token: str, role: Role = "operator") -> None:
        """Let this be a role's token; only its hash is kept."""
        kept = keys.token_hash(token)
        with self._watched():
            self.store.set_meta(_TOKENS[role], kept)
        self._tokens = {**self._tokens, role: kept}
        self._known[role] = kept, keys.quick_hash(token, self._quick)

    def check_token(self, token: str, role: Role = "operator") -> bool:
        """Whether this is a role's token, by a slow hash; takes equally long for all."""
        kept = self._tokens[role]
        if kept is None or not keys.same_token(token, kept):
            return False
        self._known[role] = kept, keys.quick_hash(token, self._quick)
        return True

    def knows_token(self, token: str, role: Role = "operator") -> bool:
        """Whether this token was right before, and still is; that takes no time."""
        kept, quick = self._known.get(role, (None, b""))
        told = hmac.compare_digest(keys.quick_hash(token, self._quick), quick)
        return told and kept is not None and kept == self._tokens[role]

    def has_old_token(self) -> bool:
        """Whether the operator's token's hash was made by an earlier version."""
        kept = self._tokens["operator"]
        return kept is not None and not keys.is_slow(kept)

    def rotate_key(self) -> None:
        """Make tickets with a new key from the next block on; those issued before stay good."""
        with self._watched():
            self._ticket_keys.rotate()

    def close(self) -> None:
        """Save what is not yet saved and give the store free."""
        with suppress(StoreUnavailable):
            self.refresh()
            self._tidy(last=True)
        self.store.close()

    def _count(self, reports: NDArray[np.void]) -> NDArray[np.uint8]:
        serials = reports["serial"].astype(np.uint64)
        bits = np.ascontiguousarray(reports["bit"])
        cells, good = self._ticket_keys.check(serials, reports)
        verdicts = np.zeros(serials.size, np.uint8)
        if not good.all() or int(cells.min()) < 0 or int(bits.max()) > 1:
            verdicts[cells < 0] = Verdict.UNKNOWN_SLOT
            verdicts[~good] = Verdict.WRONG_MARK
            verdicts[bits > 1] = Verdict.MALFORMED
            cells = np.maximum(cells, 0)
        rounds = rounds_of(self.survey, cells)
        first, beyond = self._accepting()
        if int(rounds.min()) < first or int(rounds.max()) >= beyond:
            untimely = (verdicts == 0) & ((rounds < first) | (rounds >= beyond))
            (where,) = np.nonzero(untimely)
            late = rounds[where] < first
            told = np.where(late, Verdict.TOO_LATE, Verdict.TOO_EARLY).astype(np.uint8)
            told[self.store.used(self._banks(rounds[where]), serials[where])] = Verdict.REPEATED
            verdicts[where] = told
            timely = (verdicts == 0) & ~untimely
        else:
            timely = verdicts == 0
        # A slice where all are good, which is nearly always: no copies.
        pick = slice(None) if timely.all() else timely
        group = Group(
            self._banks(rounds[pick]), serials[pick], rounds[pick], cells[pick], bits[pick]
        )
        if group.serials.size:
            if self._retain is not None:
                group = group._replace(raw=_raw(reports[pick], group.cells))
                self._kept_bytes += 0 if group.raw is None else group.raw.nbytes
            verdicts[pick] = told = self.store.count(group)
            if other := self._conflicts.note(group.banks, group.serials, group.bits, told):
                self.refused("conflicting", other)
            self._show(group.rounds[told == _COUNTED])
        return verdicts

    def _banks(self, rounds: Whole) -> Whole | int:
        """Within what a serial counts once: with one report a user the survey, otherwise a round.
        Rounds' banks are numbered from 1, so that a store knows which to forget."""
        return 0 if self._once else rounds + 1

    def _accepting(self) -> tuple[int, int]:
        """The rounds whose reports are accepted now."""
        now = self.clock()
        early, late = self.clock.between() if isinstance(self.clock, SteadyClock) else (now, now)
        return max(self.schedule.over(early), self._progress.sealed), self.schedule.begun(late)

    def _look(self) -> None:
        """Compare the clock with its judge."""
        if isinstance(self.clock, SteadyClock):
            self.clock.look()

    def _take_part(self) -> None:
        if isinstance(self.clock, SteadyClock) and self.clock.apart:
            raise StoreUnavailable("This machine's clock disagrees with the database's")

    def _show(self, counted: Whole) -> None:
        """Let `status` show at once what this collector has counted."""
        if counted.size:
            more = tally(counted, np.zeros(counted.size, np.uint8))
            reporters = dict(self._open)
            for t, number, _ in more:
                reporters[t] = reporters.get(t, 0) + number
            self._open = reporters

    def _due(self, now: float) -> bool:
        """Whether a round is to be published, sealed or revised."""
        published, sealed, _ = self._progress
        if self.schedule.due(now) > published:
            return True
        if sealed == published:
            return False
        if min(self.schedule.over(now), published) > sealed:
            return True
        late = range(sealed, published)
        return self._heard(late, needed) != self._history.reporters(sealed, published)

    def _heard(self, rounds: range, cells: Callable[[Survey, int], Whole]) -> list[int]:
        """For each round the reports in some cells."""
        if not rounds:
            return []
        each = [cells(self.survey, t) for t in rounds]
        starts = np.cumsum([0, *(len(some) for some in each[:-1])])
        reporters, _ = self.store.counts(np.concatenate(each))
        heard: list[int] = np.add.reduceat(reporters, starts).tolist()
        return heard

    def _follow(self) -> None:
        """Read what has been published or revised since the last time."""
        self._progress = self.store.progress()
        if self._progress.published < len(self._history):
            self._history.cut(self._progress.published)
            self._changed &= set(range(self._progress.published))
        first = min(len(self._history), self._sealed)
        for start in range(first, self._progress.published, _PIECE):
            beyond = min(start + _PIECE, self._progress.published)
            self._changed |= self._history.put(self.store.rows(start, beyond))
        self._sealed = self._progress.sealed

    def _tidy(self, last: bool = False) -> None:
        """Housekeeping; what fails is done the next time."""
        try:
            with self._watched():
                self.store.tidy()
                self._conflicts.forget(self._progress.sealed)
                if self._retain is not None and not self._retain.folder.is_dir():
                    raise FileNotFoundError  # known at once, and not when a file is due
                waited = time.monotonic() >= self._moved + _MOVE_SECONDS
                if self._retain is not None and (
                    last or waited or self._kept_bytes >= _MOVED_BYTES
                ):
                    self._move(self._retain)
        except (OSError, StoreUnavailable):
            self._reachable = False

    def _move(self, retain: "Retention") -> None:
        """Raw reports out of the store, into files."""
        while kept := self.store.raw(_MOVED_BYTES):
            batches = [reports for _, reports in kept]
            # By number and content: other reports never take a file's place.
            digest = hashlib.sha256(b"".join(batches)).hexdigest()[:16]
            retain.write(f"{kept[0][0]:012d}-{digest}", batches)
            self.store.drop_raw([number for number, _ in kept])
        retain.compact()
        self._moved, self._kept_bytes = time.monotonic(), 0

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except StoreUnavailable:
            self._reachable = False
            raise
        self._reachable = True


def _raw(reports: NDArray[np.void], cells: Whole) -> NDArray[np.void]:
    from sudare.collector._retention import RAW

    raw = np.empty(reports.size, RAW)
    for name in ("serial", "slot", "bit"):
        raw[name] = reports[name]
    raw["cell"] = cells
    return raw
