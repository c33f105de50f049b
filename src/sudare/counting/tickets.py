"""Tickets: who reports when, decided by the collector before any data and checkable afterwards.

A ticket is a serial number with a keyed mark (MAC). The rounds it reports in follow from the serial
under the collector's secret key, so that nobody can aim at a round, and every complete block of T
serials covers every round exactly as often (once for each slot): within a block the rounds stand
around a circle in a secret order, the tickets are given places on it in another, and the ticket at
place i takes the rounds at i, i+1, …, i+g−1. So the g of a block who report in a round are any g of
it, all sets alike. Without an order of their own they would be neighbours in serial, who joined
together and may be alike, and no interval would hold; and one order for all blocks would put users
who join in a rhythm into the same round. A ticket issued late is like any other: where its round
has passed, it stays silent.

Marks and orders are AES-128 of (purpose, serial) under keys derived from the collector's key and
the survey's description: a ticket of one survey is worth nothing in another. Marks of a million
tickets are checked in one call.
"""

import hashlib
from typing import Any, NamedTuple

import msgspec
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from sudare import checks
from sudare.counting import tree
from sudare.counting.survey import Survey

KEY_BYTES = 32
MARK_BYTES = 16
MAX_SERIAL = 2**48 - 1
_MOST_WORDS = 1 << 22
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

    def issue(self, serial: int) -> Ticket:
        """The ticket with this serial."""
        return self.issue_many([serial])[0]

    def issue_many(self, serials: ArrayLike) -> list[Ticket]:
        """Tickets with these serials; hand each out once."""
        numbers = _serials(serials)
        digest = self.survey.digest()
        marks = _encrypt(self.marks, np.zeros(numbers.size, np.uint64), numbers).tobytes()
        cut = [marks[i : i + MARK_BYTES] for i in range(0, len(marks), MARK_BYTES)]
        issued = zip(numbers.tolist(), cut, strict=True)
        if self.survey.method == "tree":
            levels = self._levels(numbers).tolist()
            return [
                Ticket(digest, serial, mark, level=level)
                for (serial, mark), level in zip(issued, levels, strict=True)
            ]
        if self.survey.method == "rappor":
            return [Ticket(digest, serial, mark) for serial, mark in issued]
        rounds = self._rounds(numbers).tolist()
        return [
            Ticket(digest, serial, mark, tuple(own))
            for (serial, mark), own in zip(issued, rounds, strict=True)
        ]

    def authentic(self, serials: ArrayLike, marks: bytes) -> NDArray[np.bool_]:
        """Which of the concatenated marks belong to their serials; takes equally long for all."""
        # What a stranger sent may hold any number: a serial never issued is not an error here.
        numbers = _whole(serials=serials).astype(np.uint64)
        if len(marks) != MARK_BYTES * numbers.size:
            raise checks.InvalidInput(f"Expected {MARK_BYTES} bytes of mark for each serial")
        true = _encrypt(self.marks, np.zeros(numbers.size, np.uint64), numbers)
        difference = np.frombuffer(marks, "<u8").reshape(-1, 2) ^ true
        right: NDArray[np.bool_] = (difference[:, 0] | difference[:, 1]) == 0
        return right & (numbers <= MAX_SERIAL)

    def cells(self, serials: ArrayLike, slots: ArrayLike) -> NDArray[np.int64]:
        """The cell that each report counts in; −1 for a slot the ticket does not have."""
        numbers = _serials(serials)
        which = _whole(slots=slots).astype(np.int64)  # beyond 2^63 negative: unknown as well
        if which.shape != numbers.shape:
            raise checks.InvalidInput("Expected as many slots as serials")
        survey = self.survey
        if survey.method == "rappor":
            return np.where((which >= 0) & (which < survey.rounds), which, -1)
        if survey.method == "tree":
            levels = self._levels(numbers)
            starts = np.array([tree.offset(survey.rounds, each) for each in range(survey.levels)])
            known = (which >= 0) & (which < survey.rounds >> levels)
            return np.where(known, starts[levels] + which, -1)
        known = (which >= 0) & (which < survey.slots)
        rounds = self._rounds(numbers)
        picked = np.take_along_axis(rounds, np.where(known, which, 0)[:, None], axis=1)[:, 0]
        return np.where(known, picked, -1)

    def _rounds(self, serials: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Each ticket's rounds, in order of time."""
        total, g = self.survey.rounds, self.survey.slots
        blocks, places = np.divmod(serials.astype(np.int64), total)
        distinct, where = np.unique(blocks, return_inverse=True)
        rounds = np.empty((serials.size, g), np.int64)
        at_once = max(1, _MOST_WORDS // total)
        for start in range(0, distinct.size, at_once):
            (mine,) = np.nonzero((where >= start) & (where < start + at_once))
            block = where[mine] - start
            order, seats = self._orders(distinct[start : start + at_once])
            around = (seats[block, places[mine]][:, None] + np.arange(g)) % total
            rounds[mine] = order[block[:, None], around]
        rounds.sort(axis=1)
        return rounds

    def _orders(self, blocks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each block a secret order of its rounds and one of its tickets: by keyed words, of
        which no two are alike but with probability T²/2⁶⁴."""
        total = self.survey.rounds
        block = np.repeat(blocks.astype(np.uint64), total)
        place = np.tile(np.arange(total, dtype=np.uint64), blocks.size)
        words = _encrypt(self.orders, block, place).reshape(blocks.size, total, 2)
        order: NDArray[np.int64] = np.argsort(words[:, :, 0], axis=1)
        if self.survey.slots == 1:  # whose turn it is is secret already
            return order, np.broadcast_to(np.arange(total), order.shape)
        return order, np.argsort(words[:, :, 1], axis=1)

    def _levels(self, serials: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Each ticket's level, independently of all others, as the tree's intervals require."""
        words = _encrypt(self.orders, np.full(serials.size, 2**64 - 1, np.uint64), serials)[:, 0]
        # A 64-bit word modulo at most 20 levels: uneven by 2⁻⁵⁹.
        levels: NDArray[np.int64] = (words % np.uint64(self.survey.levels)).astype(np.int64)
        return levels


def open_office(survey: Survey, key: bytes) -> TicketOffice:
    """The office of one survey; `key` is 32 secret bytes, the same each time."""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise checks.InvalidInput(f"Expected key to be {KEY_BYTES} secret bytes")
    keys = hashlib.blake2b(survey.digest(), key=key, person=b"sudare-tickets", digest_size=32)
    return TicketOffice(survey, keys.digest()[:16], keys.digest()[16:])


def _serials(serials: ArrayLike) -> NDArray[np.uint64]:
    numbers = _whole(serials=serials)
    if numbers.size and (numbers.min() < 0 or numbers.max() > MAX_SERIAL):
        raise checks.InvalidInput(f"Expected serials between 0 and {MAX_SERIAL}")
    return numbers.astype(np.uint64)


def _whole(**named: ArrayLike) -> NDArray[np.integer[Any]]:
    ((name, values),) = named.items()
    try:
        numbers = np.asarray(values)
    except ValueError:  # lists of different lengths
        numbers = np.zeros(())
    if numbers.ndim == 1 and numbers.size == 0:
        return np.zeros(0, np.int64)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise checks.InvalidInput(f"Expected {name} to be a list of whole numbers")
    return numbers


def _encrypt(
    key: bytes, first: NDArray[np.uint64], second: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """AES-128 of each pair of words, as a pair of words: a keyed random function of it."""
    pairs = np.stack([first, second], axis=1).astype("<u8")
    # One block is one message, and no message repeats: what ECB is unfit for does not arise.
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return np.frombuffer(cipher.update(pairs.tobytes()), "<u8").reshape(-1, 2)
