"""Tickets: who reports when, decided by the collector before any data and checkable afterwards.

A ticket is a serial number with a keyed mark (MAC). Serials come in blocks of T, and a block has a
seat for every round: the ticket at seat i reports in the rounds i + D modulo T, D a set of g rounds
that is the block's own, drawn by the collector's secret key (for g = 1 simply {0}). So every
complete block covers every round exactly g times, and which rounds a serial has costs no search.

Tickets are handed out like cards from a shuffled deck: the n-th person to join gets a serial of
block ⌊n/T⌋, in an order that is secret and uniformly random, another one in each block. Hence the
reporters of a round are any g of a complete block, all sets alike, whatever D is; people who join
together, or in a rhythm, and may be alike, do not report together; and a person's rounds are any g
of the T, all sets alike. Who holds tickets of a block knows of the others only that their seats are
other ones: taking tickets until one has the wanted round finds less than twice as many of them
(proofs in docs/theory/counting.md), and a wanted serial cannot be made up for want of its mark. A
ticket issued late is like any other: where its round has passed, it stays silent.

Marks, orders and sets are AES-128 of (purpose, number) under keys derived from the collector's key
and the survey's description: a ticket of one survey is refused by another. Marks of a million
tickets are checked in one call.
"""

import hashlib
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from sudare.counting import tree
from sudare.counting._marks import slot_marks
from sudare.counting._survey import Survey
from sudare.foundations import checks

KEY_BYTES = 32
MARK_BYTES = 16
MAX_SERIAL = 2**48 - 1
_MOST_WORDS = 1 << 18
"""Words ordered at a time: bounds the memory of a large batch."""


class Ticket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user's place in a survey. Its mark proves that the collector issued it."""

    survey: bytes
    """`survey.digest()`."""
    serial: int
    mark: bytes
    rounds: tuple[int, ...] = ()
    """The rounds to report in, in order; empty where every round is (`rappor`, `tree`)."""
    level: int = 0
    """`tree`: reports are about stretches of 2^level rounds."""

    def slots(self, survey: Survey) -> int:
        """How many reports this ticket makes at most."""
        if survey.method == "tree":
            return survey.rounds >> self.level
        return survey.rounds if survey.method == "rappor" else len(self.rounds)

    def mark_of(self, survey: Survey, slot: int) -> bytes:
        """What the report in this slot carries."""
        if survey.marks is msgspec.UNSET:
            return self.mark
        return slot_marks(self.mark, np.array([slot]))

    def slot_of(self, survey: Survey, round_: int) -> int | None:
        """Which of its reports is due in this round, if one is."""
        if survey.method == "tree":
            return tree.stretch_ending(round_, self.level)
        if survey.method == "rappor":
            return round_
        return self.rounds.index(round_) if round_ in self.rounds else None


class TicketOffice(NamedTuple):
    """The collector's side: issues tickets and checks them, from one secret key."""

    survey: Survey
    marks: bytes
    orders: bytes

    def __repr__(self) -> str:
        return f"TicketOffice({self.survey.name!r})"  # without its keys

    def issue(self, number: int) -> Ticket:
        """The ticket for the person who joins as number 0, 1, 2, …"""
        return self.issue_many([number])[0]

    def issue_many(self, numbers: ArrayLike) -> list[Ticket]:
        """Tickets for these numbers; hand each out once. Serials are dealt within their block."""
        joined = _numbers(self._last_number(), numbers=numbers)
        dealt = self._dealt(joined) if self._by_rounds else joined
        digest = self.survey.digest()
        marks = _encrypt(self.marks, np.uint64(0), dealt).tobytes()
        cut = [marks[i : i + MARK_BYTES] for i in range(0, len(marks), MARK_BYTES)]
        issued = zip(dealt.tolist(), cut, strict=True)
        if self.survey.method == "tree":
            levels = self._levels(dealt).tolist()
            return [
                Ticket(digest, serial, mark, level=level)
                for (serial, mark), level in zip(issued, levels, strict=True)
            ]
        if self.survey.method == "rappor":
            return [Ticket(digest, serial, mark) for serial, mark in issued]
        rounds = self._rounds(dealt).tolist()
        return [
            Ticket(digest, serial, mark, tuple(own))
            for (serial, mark), own in zip(issued, rounds, strict=True)
        ]

    def authentic(
        self, serials: ArrayLike, marks: bytes, slots: ArrayLike | None = None
    ) -> NDArray[np.bool_]:
        """Which of the concatenated marks belong to their serials; takes equally long for all.

        With `slots` they are the marks of reports, else of tickets.
        """
        # What a stranger sent may hold any number: a serial never issued is not an error here.
        numbers = _whole(serials=serials).astype(np.uint64, copy=False)
        if len(marks) != MARK_BYTES * numbers.size:
            raise checks.InvalidInput(f"Expected {MARK_BYTES} bytes of mark for each serial")
        true = _encrypt(self.marks, np.uint64(0), numbers)
        if slots is not None and self.survey.marks is not msgspec.UNSET:
            of_reports = slot_marks(true.tobytes(), _whole(slots=slots))
            true = np.frombuffer(of_reports, "<u8").reshape(-1, 2)
        difference = np.frombuffer(marks, "<u8").reshape(-1, 2) ^ true
        right: NDArray[np.bool_] = (difference[:, 0] | difference[:, 1]) == 0
        return right & (numbers <= MAX_SERIAL)

    def cells(self, serials: ArrayLike, slots: ArrayLike) -> NDArray[np.int64]:
        """The cell that each report counts in; −1 for a slot the ticket does not have."""
        numbers = _numbers(MAX_SERIAL, serials=serials)
        which = _whole(slots=slots).astype(np.int64)  # beyond 2^63 negative: unknown as well
        if which.shape != numbers.shape:
            raise checks.InvalidInput("Expected as many slots as serials")
        survey = self.survey
        if survey.method == "tree":
            levels = self._levels(numbers)
            starts = np.array([tree.offset(survey.rounds, each) for each in range(survey.levels)])
            known = (which >= 0) & (which < survey.rounds >> levels)
            return np.where(known, starts[levels] + which, -1)
        slots_each = survey.rounds if survey.method == "rappor" else survey.slots
        known = (which >= 0) & (which < slots_each)
        if survey.method == "rappor":
            return np.where(known, which, -1)
        if survey.slots == 1:
            seats = (numbers % np.uint64(survey.rounds)).astype(np.int64)
            return np.where(known, seats, -1)
        rounds = self._rounds(numbers)
        picked = rounds[np.arange(numbers.size), np.where(known, which, 0)]
        return np.where(known, picked, -1)

    @property
    def _by_rounds(self) -> bool:
        """Whether a ticket has rounds of its own."""
        return self.survey.method not in ("rappor", "tree")

    def _last_number(self) -> int:
        """Only whole blocks are dealt."""
        rounds = self.survey.rounds if self._by_rounds else 1
        return (MAX_SERIAL + 1) // rounds * rounds - 1

    def _dealt(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The serial that each number gets."""
        total = self.survey.rounds
        blocks, places = np.divmod(numbers.astype(np.int64), total)
        distinct, where = np.unique(blocks, return_inverse=True)
        seats = np.empty(numbers.size, np.int64)
        at_once = max(1, _MOST_WORDS // total)
        for start in range(0, distinct.size, at_once):
            (mine,) = np.nonzero((where >= start) & (where < start + at_once))
            blocks_now = distinct[start : start + at_once]
            orders = (
                _last_orders(self.orders, total, int(blocks_now[0]))
                if blocks_now.size == 1
                else _orders(self.orders, total, blocks_now)
            )
            seats[mine] = orders[where[mine] - start, places[mine]]
        return (blocks * total + seats).astype(np.uint64)

    def _rounds(self, serials: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Each ticket's rounds, in order of time."""
        total, g = self.survey.rounds, self.survey.slots
        blocks, seats = np.divmod(serials.astype(np.int64), total)
        if g == 1:
            return seats[:, None]
        rounds = self._sets(blocks)
        rounds += seats[:, None]
        rounds %= total
        rounds.sort(axis=1)
        return rounds

    def _sets(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each block a set of g of the T rounds, all sets alike (Floyd's method)."""
        total, g = self.survey.rounds, self.survey.slots
        # The last serial of the last block is far below 2^63: no order has such a number.
        block = np.repeat(blocks.astype(np.uint64) | np.uint64(1 << 63), g)
        words = _encrypt(self.orders, block, np.tile(np.arange(g, dtype=np.uint64), blocks.size))
        words = words[:, 0].reshape(-1, g)
        chosen = np.empty((blocks.size, g), np.int64)
        for j, last in enumerate(range(total - g, total)):
            # A 64-bit word modulo at most a million: uneven by 2⁻⁴⁴.
            drawn = (words[:, j] % np.uint64(last + 1)).astype(np.int64)
            taken = (chosen[:, :j] == drawn[:, None]).any(axis=1)
            chosen[:, j] = np.where(taken, last, drawn)
        return chosen

    def _levels(self, serials: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Each ticket's level, independently of all others, as the tree's intervals require."""
        words = _encrypt(self.orders, np.uint64(2**64 - 1), serials)[:, 0]
        # A 64-bit word modulo at most 20 levels: uneven by 2⁻⁵⁹.
        levels: NDArray[np.int64] = (words % np.uint64(self.survey.levels)).astype(np.int64)
        return levels


def open_office(survey: Survey, key: bytes) -> TicketOffice:
    """The office of one survey; `key` is 32 secret bytes, the same each time."""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise checks.InvalidInput(f"Expected key to be {KEY_BYTES} secret bytes")
    keys = hashlib.blake2b(survey.digest(), key=key, person=b"sudare-tickets", digest_size=32)
    return TicketOffice(survey, keys.digest()[:16], keys.digest()[16:])


def _orders(key: bytes, total: int, blocks: NDArray[np.int64]) -> NDArray[np.int32]:
    """For each block a secret order of its seats: by keyed words, of which no two are alike but
    with probability T²/2⁶⁴."""
    numbers = np.repeat(blocks.astype(np.uint64), total)
    places = np.tile(np.arange(total, dtype=np.uint64), blocks.size)
    words = _encrypt(key, numbers, places)[:, 0].reshape(-1, total)
    return np.argsort(words, axis=1).astype(np.int32)


@lru_cache(maxsize=4)
def _last_orders(key: bytes, total: int, block: int) -> NDArray[np.int32]:
    """Remembered, for the next person mostly joins the same block."""
    return _orders(key, total, np.array([block]))


def _numbers(last: int, **named: ArrayLike) -> NDArray[np.uint64]:
    ((name, _),) = named.items()
    numbers = _whole(**named)
    if numbers.size and (int(numbers.max()) > last or int(numbers.min()) < 0):
        raise checks.InvalidInput(f"Expected {name} between 0 and {last}")
    return numbers.astype(np.uint64, copy=False)


def _whole(**named: ArrayLike) -> NDArray[np.integer[Any]]:
    ((name, values),) = named.items()
    try:
        numbers = np.asarray(values)
    except ValueError:  # lists of different lengths
        numbers = np.zeros(())
    if numbers.ndim == 1 and numbers.size == 0:
        return np.zeros(0, np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise checks.InvalidInput(f"Expected {name} to be a list of whole numbers")
    return numbers


def _encrypt(
    key: bytes, first: NDArray[np.uint64] | np.uint64, second: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """AES-128 of each pair of words, as a pair of words: a keyed random function of it."""
    pairs = np.empty((second.size, 2), "<u8")
    pairs[:, 0], pairs[:, 1] = first, second
    # One block is one message, and no message repeats: what ECB is unfit for does not arise.
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return np.frombuffer(cipher.update(pairs.tobytes()), "<u8").reshape(-1, 2)
