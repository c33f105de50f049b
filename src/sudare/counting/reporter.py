"""One user's side of a survey: the only place that ever sees a true bit.

Guarantee. All that `report` hands out over the whole horizon is together ε-LDP for the user, for
any bits, also bits chosen after seeing what was sent before. All secret coins are drawn when the
reporter is made, so no crash and no restart can draw twice; and before a report is handed out, the
fact is saved, so that a slot is never answered in two ways. Asked again for the same round, a
reporter repeats what it said, whatever the bit is now.

Whether something is sent depends on the ticket and the round alone, never on the bit: `report` must
be given a bit in every round it is called for and decides by itself whether to speak. A device that
was switched off in its round cannot report; if being off has to do with the question (is anybody at
home?), that silence speaks. Save the bit and report it late, or count something else.
"""

import fcntl
import os
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from sudare import checks
from sudare.counting.reports import Report
from sudare.counting.survey import Survey
from sudare.counting.tickets import Ticket
from sudare.mechanisms import draw_masks
from sudare.randomness import Generator, is_secure, secure

_VERSION = 1


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
        self.path = Path(path)
        self._lock = os.open(f"{self.path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise checks.SudareError(
                f"{self.path} is in use by another process: one reporter at a time"
            ) from None

    def load(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def save(self, state: bytes) -> None:
        draft = self.path.with_name(self.path.name + ".new")
        try:
            descriptor = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(state)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
            _sync_folder(self.path.parent)
        except OSError as problem:
            draft.unlink(missing_ok=True)
            raise checks.SudareError(
                f"Cannot save {self.path}: {problem.strerror}; nothing was reported"
            ) from None

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._lock)


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
        saved = store.load()
        if saved is None:
            raise checks.InvalidInput("Expected a saved reporter: use Reporter.enrol for a new one")
        try:
            self._state = msgspec.msgpack.decode(saved, type=_State)
        except msgspec.DecodeError:
            raise checks.InvalidInput(
                "Expected a saved reporter; what is saved is damaged, and its coins cannot be "
                "drawn again: this ticket is lost"
            ) from None
        if self._state.version != _VERSION:
            raise checks.InvalidInput("Expected a reporter saved by this version of sudare")
        if self._state.ticket.survey != survey.digest():
            raise checks.InvalidInput("Expected the survey that the saved ticket is for")

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
        slots = ticket.slots(survey)
        runs, coins = 1, b""
        if survey.method == "rappor":
            runs = slots
        elif survey.method == "tree":
            coins = rng.integers(0, 2, size=slots, dtype=np.uint8).tobytes()
        flips = draw_masks(survey.law, runs, rng).tobytes()
        state = _State(_VERSION, ticket, flips, coins, not is_secure(rng), {})
        store.save(msgspec.msgpack.encode(state))
        return cls(survey, store)

    @property
    def ticket(self) -> Ticket:
        return self._state.ticket

    @property
    def simulated(self) -> bool:
        """Drawn with a seed: the reports protect nobody."""
        return self._state.simulated

    @property
    def finished(self) -> bool:
        """Whether every report of this ticket has been made."""
        return len(self._state.sent) == self.ticket.slots(self.survey)

    def report(self, round: int, bit: int) -> Report | None:
        """The report due in this round, or None: call it in every round, whatever the bit.

        Rounds come in order; those missed stay unreported. The same round again repeats its report.
        """
        state = self._state
        if bit is not True and bit is not False and not (_whole(bit) and bit in (0, 1)):
            raise checks.InvalidInput("Expected bit to be 0 or 1")
        if not _whole(round) or not 0 <= round < self.survey.rounds:
            raise checks.InvalidInput(f"Expected round between 0 and {self.survey.rounds - 1}")
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
        return Report(state.ticket.serial, slot, self._state.sent[slot], state.ticket.mark)

    def reports(self) -> list[Report]:
        """All reports made so far, for sending again what may have been lost on the way."""
        ticket = self.ticket
        sent = sorted(self._state.sent.items())
        return [Report(ticket.serial, slot, bit, ticket.mark) for slot, bit in sent]

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
        self._store.save(msgspec.msgpack.encode(after))
        self._state = after


def _sync_folder(folder: Path) -> None:
    """Make a new name in the folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_ticket(survey: Survey, ticket: Ticket) -> None:
    """What a device can check without the collector's key: its slots are rounds, each once."""
    if ticket.survey != survey.digest():
        raise checks.InvalidInput("Expected a ticket of this survey")
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
