"""One user's side of a survey: the only place that ever sees a true bit.

Guarantee. All that `report` hands out over the whole horizon is together ε-LDP for the user, for
any bits, also bits chosen after seeing what was sent before. All secret coins are drawn when the
reporter is made, so no crash and no restart can draw twice; and before a report is handed out, the
fact is saved, so that a slot is never answered in two ways. Called again for the same round,
a reporter repeats its report, whatever the bit is now.

Whether something is sent depends on the ticket and the round alone, never on the bit: `report` must
be given a bit in every round it is called for and decides by itself whether to send. A device that
was switched off in its round cannot report; if being off has to do with the question (is anybody at
home?), its silence reveals something. Save the bit and report it late, or count something else.
"""

import contextlib
import os
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from sudare.counting._coins import draw_coins, words_of
from sudare.counting._reports import Report
from sudare.counting._survey import Survey
from sudare.counting._tickets import MARK_BYTES, MAX_SERIAL, Ticket
from sudare.foundations import checks
from sudare.foundations.randomness import Generator, is_secure, secure
from sudare.storage.files import sync_folder
from sudare.storage.lock import InUse, only_one

_VERSION = 1
_DAMAGED = (
    "Expected a saved reporter; what was saved is damaged or gone, and its coins cannot be drawn "
    "again: this ticket is lost"
)


class StateStore(Protocol):
    """Where a reporter keeps its secrets; `save` returns once they are safe."""

    def load(self) -> bytes | None: ...

    def save(self, state: bytes) -> None: ...


class MemoryStore:
    """For simulation and tests: gone with the process."""

    def __init__(self) -> None:
        self._state: bytes | None = None

    def load(self) -> bytes | None:
        return self._state

    def save(self, state: bytes) -> None:
        self._state = state


class FileStore:
    """A file, replaced as a whole and synced; one process at a time may hold it."""

    def __init__(self, path: str | Path) -> None:
        # Links and later changes of folder must not lead past the lock.
        self.path = Path(path).resolve()
        self._owner = os.getpid()
        try:
            self._lock = only_one(self.path)
        except OSError as problem:
            raise checks.SudareError(f"Cannot use {self.path}: {problem.strerror}") from None
        except InUse:
            raise checks.SudareError(
                f"{self.path} is in use by another process: one reporter at a time"
            ) from None

    def load(self) -> bytes | None:
        self._check_held()
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise checks.SudareError(f"Cannot read {self.path}: {problem.strerror}") from None

    def save(self, state: bytes) -> None:
        self._check_held()
        draft = self.path.with_name(self.path.name + ".new")
        try:
            # A draft left by a crash is begun afresh: it may be open to others, or be a link.
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(state)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as problem:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise checks.SudareError(
                f"Cannot save {self.path}: {problem.strerror}; nothing was reported"
            ) from None

    def close(self) -> None:
        """Let another process have it; this store can no longer be used."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def _check_held(self) -> None:
        # A fork inherits the lock, and would answer beside its parent.
        if self._lock < 0 or os.getpid() != self._owner:
            raise checks.PrivacyError(
                f"{self.path} is not held by this process: open it with a FileStore of its own"
            )


class _State(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    ticket: Ticket
    flips: bytes
    """A 0 or 1 for each flip: of the mask, or for `rappor` of each round."""
    coins: bytes
    """`tree`: a fair coin for each stretch."""
    simulated: bool
    sent: dict[int, int]
    """The bit handed out for each slot."""
    round: int = -1
    bit: int = 0
    """`tree`: the true bit at the end of the last stretch reported on."""
    moves: int = 0
    """`tree`: movements sent through a flip so far."""


class Reporter:
    """Holds a ticket and its secret coins; answers each round with a report or with nothing."""

    def __init__(self, survey: Survey, store: StateStore) -> None:
        """Take up where the store left off; `enrol` makes a new one."""
        self.survey, self._store = survey, store
        self._saved: bytes | None = None
        self._reload()

    def _reload(self) -> None:
        """Know what the store knows: what it holds is what was, or may have been, handed out."""
        saved = self._store.load()
        if saved is not None and saved == self._saved:
            return
        if saved is None and self._saved is not None:
            raise checks.InvalidInput(_DAMAGED)
        if saved is None:
            raise checks.InvalidInput("Expected a saved reporter: use Reporter.enrol for a new one")
        try:
            state = msgspec.msgpack.decode(saved, type=_State)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise checks.InvalidInput(_DAMAGED) from None
        if state.version != _VERSION:
            raise checks.InvalidInput("Expected a reporter saved by this version of sudare")
        if state.ticket.survey != self.survey.digest():
            raise checks.InvalidInput("Expected the survey that the saved ticket is for")
        _check_state(self.survey, state)
        self._state, self._saved = state, saved

    @classmethod
    def enrol(
        cls, survey: Survey, ticket: Ticket, store: StateStore, rng: Generator | None = None
    ) -> "Reporter":
        """Draw all secret coins for this ticket and save them. Once a ticket, never again."""
        if store.load() is not None:
            raise checks.PrivacyError(
                "Expected an empty store: drawing coins again would spend the budget twice"
            )
        _check_ticket(survey, ticket)
        rng = secure() if rng is None else rng
        flips, coins = draw_coins(survey, ticket, words_of(rng))
        state = _State(_VERSION, ticket, flips, coins, not is_secure(rng), {})
        store.save(msgspec.msgpack.encode(state))
        return cls(survey, store)

    @property
    def ticket(self) -> Ticket:
        return self._state.ticket

    @property
    def simulated(self) -> bool:
        """Drawn with a seed: the reports are not private."""
        return self._state.simulated

    @property
    def round(self) -> int:
        """The latest round that was reported on, −1 before the first; earlier ones are refused."""
        return self._state.round

    @property
    def finished(self) -> bool:
        """Whether every report of this ticket has been made."""
        return len(self._state.sent) == self.ticket.slots(self.survey)

    def report(self, round: int, bit: int) -> Report | None:
        """The report due in this round, or None: call it in every round, whatever the bit.

        Rounds come in order; those missed stay unreported. The same round again repeats its report.
        """
        check_bit(bit)
        if not _whole(round) or not 0 <= round < self.survey.rounds:
            raise checks.InvalidInput(f"Expected round between 0 and {self.survey.rounds - 1}")
        self._reload()
        state = self._state
        if round < state.round:
            raise checks.InvalidInput(
                f"Expected a round after {state.round - 1}: rounds come in order"
            )
        slot = state.ticket.slot_of(self.survey, int(round))
        if slot is None:
            state.round = int(round)
            return None
        if slot not in state.sent:
            self._answer(int(round), slot, int(bit))
        mark = state.ticket.mark_of(self.survey, slot)
        return Report(state.ticket.serial, slot, self._state.sent[slot], mark)

    def reports(self) -> list[Report]:
        """All reports made so far, for sending again what may have been lost on the way."""
        ticket = self.ticket
        sent = sorted(self._state.sent.items())
        return [
            Report(ticket.serial, slot, bit, ticket.mark_of(self.survey, slot))
            for slot, bit in sent
        ]

    def _answer(self, round_: int, slot: int, bit: int) -> None:
        """Decide what is said in this slot, and save it before anyone hears of it."""
        state, moves = self._state, self._state.moves
        if self.survey.method != "tree":
            said = bit ^ state.flips[slot]
        elif bit == state.bit or moves == len(state.flips):
            said = state.coins[slot]
        else:
            said, moves = (bit > state.bit) ^ state.flips[moves], moves + 1
        after = msgspec.structs.replace(
            state, sent={**state.sent, slot: int(said)}, round=round_, bit=bit, moves=moves
        )
        saved = msgspec.msgpack.encode(after)
        self._store.save(saved)
        self._state, self._saved = after, saved


def check_bit(bit: object) -> None:
    """Refuse what is neither 0 nor 1, without saying what it was."""
    if not (isinstance(bit, bool | np.bool_) or (_whole(bit) and bit in (0, 1))):
        raise checks.InvalidInput("Expected bit to be 0 or 1")


def _whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_ticket(survey: Survey, ticket: Ticket) -> None:
    """What a device can check without the collector's key: its slots are rounds, each once."""
    if ticket.survey != survey.digest():
        raise checks.InvalidInput("Expected a ticket of this survey")
    if not 0 <= ticket.serial <= MAX_SERIAL or len(ticket.mark) != MARK_BYTES:
        raise checks.InvalidInput("Expected a ticket with a serial and a mark, as it was issued")
    if survey.method == "tree":
        sound = 0 <= ticket.level < survey.levels and not ticket.rounds
    elif survey.method == "rappor":
        sound = not ticket.rounds
    else:
        rounds = ticket.rounds
        sound = len(rounds) == survey.slots and list(rounds) == sorted(set(rounds))
        sound = sound and all(0 <= each < survey.rounds for each in rounds)
    if not sound:
        raise checks.InvalidInput("Expected a ticket with the slots that the survey describes")


def _check_state(survey: Survey, state: _State) -> None:
    """What was saved must fit the ticket: a missing or a foreign coin would reveal the bit."""
    _check_ticket(survey, state.ticket)
    slots = state.ticket.slots(survey)
    flips = slots if survey.method == "rappor" else survey.law_at(state.ticket.level).slots
    coins = slots if survey.method == "tree" else 0
    bits = {*state.flips, *state.coins, *state.sent.values(), state.bit}
    if not (
        len(state.flips) == flips
        and len(state.coins) == coins
        and bits <= {0, 1}
        and all(0 <= slot < slots for slot in state.sent)
        and -1 <= state.round < survey.rounds
        and 0 <= state.moves <= flips
    ):
        raise checks.InvalidInput(_DAMAGED)
