"""What is counted, for how long, and under which promise: the public description of a survey.

Rounds are numbered 0 … T−1. A user's reports over the whole horizon are together ε-LDP, whatever
the user's bits are:

    glance           one round a user, randomised response in it (Ono et al.)
    harmony          the same reports; the estimate divides by N/T instead of by the reporters
    harmony-signed   the same reports, counted as ±1 (Nguyên et al. 2016)
    rappor           every round, ε/T each (Basic One-time RAPPOR; Erlingsson et al. 2014)
    masks            `slots` rounds a user, flipped by one mask drawn beforehand
    tree             sums of changes over dyadic stretches of time, for users who seldom change

Each report belongs to a *cell* and adds one to the cell's reporters, and to its ones if the bit is
set. A cell is a round, except for `tree`, where it is a stretch of rounds.
"""

import hashlib
import tomllib
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import msgspec

from sudare.foundations import checks
from sudare.foundations.masks import MAX_SLOTS, MaskLaw, mask_law
from sudare.foundations.privacy import LocalEvent
from sudare.storage.files import read_text, toml_value

Method = Literal["glance", "harmony", "harmony-signed", "rappor", "masks", "tree"]
METHODS: tuple[Method, ...] = get_args(Method)
MAX_ROUNDS = 1_000_000
_LONGEST_NAME = 64
_MAX_EPSILON = 40.0


class Survey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The public description; everything else (tickets, reports, estimates) follows from it."""

    name: str
    rounds: int
    epsilon: float
    """For one user's reports over all rounds together."""
    method: Method = "glance"
    slots: int = 1
    """`masks`: rounds in which each user reports."""
    threshold: int | None = None
    """`masks`: how many flips a likely mask has; None takes the best."""
    changes: int | None = None
    """`tree`: how many changes of a user's bit are counted, a first one from zero included; what a
    user changes beyond that is lost to the count, not to the user."""
    flips: Literal["stretches"] | msgspec.UnsetType = msgspec.UNSET
    """`tree`: "stretches" gives a ticket no more flips than it has reports to make, so that those
    of long stretches are right more often. Without it all have as many as there are changes, as
    before there was a choice; left out, it is no part of the digest either."""
    marks: Literal["slots"] | msgspec.UnsetType = msgspec.UNSET
    """Where users report more than once: "slots" gives each report a mark of its own, so that who
    passes one on cannot forge another. Without it all carry the ticket's, as before there was a
    choice; left out, it is no part of the digest either."""
    question: str = ""
    start: datetime | None = None
    """When round 0 begins, with its time zone."""
    round_seconds: float | None = None

    def __post_init__(self) -> None:
        named = isinstance(self.name, str) and self.name.isprintable()
        if not (named and self.name.strip() and len(self.name) <= _LONGEST_NAME):
            raise checks.InvalidInput(
                f"Expected a printable name of at most {_LONGEST_NAME} letters"
            )
        if not (isinstance(self.question, str) and self.question.isprintable()):
            raise checks.InvalidInput("Expected a printable question, on one line")
        checks.count(rounds=self.rounds)
        if self.rounds > MAX_ROUNDS:
            raise checks.InvalidInput(f"Expected at most {MAX_ROUNDS} rounds")
        checks.positive(epsilon=self.epsilon)
        if self.epsilon > _MAX_EPSILON:
            raise checks.InvalidInput(
                f"Expected epsilon={float(self.epsilon)} <= {_MAX_EPSILON:g}: more hides nothing"
            )
        checks.one_of(METHODS, method=self.method)
        self._check_slots()
        self._check_times()
        self._normalise()
        if self.law.attenuation == 0:
            raise checks.InvalidInput(
                f"Expected a larger epsilon than {self.epsilon}: each report would carry too "
                "little to be counted"
            )

    def _check_times(self) -> None:
        if (self.start is None) != (self.round_seconds is None):
            raise checks.InvalidInput("Expected start and round_seconds together, or neither")
        if self.round_seconds is not None:
            checks.positive(round_seconds=self.round_seconds)
        if self.start is not None and not (
            isinstance(self.start, datetime) and self.start.utcoffset() is not None
        ):
            raise checks.InvalidInput(
                "Expected start with its time zone, as in 2026-12-01T00:00:00Z"
            )

    def _normalise(self) -> None:
        """One form for equal values (1 and 1.0, one instant in two time zones): equal surveys must
        have equal digests, whether made in Python or read from a file."""
        plain: dict[str, object] = {"epsilon": float(self.epsilon)}
        for name in ("rounds", "slots", "threshold", "changes"):
            value = getattr(self, name)
            plain[name] = None if value is None else int(value)
        if self.start is not None and self.round_seconds is not None:
            plain["round_seconds"] = float(self.round_seconds)
            try:
                plain["start"] = self.start.astimezone(UTC)
            except OverflowError:
                raise checks.InvalidInput("Expected start between the years 1 and 9999") from None
        for name, value in plain.items():
            msgspec.structs.force_setattr(self, name, value)

    def _check_slots(self) -> None:
        checks.count(slots=self.slots)
        if self.method != "masks":
            for name, default in (("slots", 1), ("threshold", None)):
                if getattr(self, name) != default:
                    raise checks.InvalidInput(f'Expected {name} only with method "masks"')
        elif self.slots > min(self.rounds, MAX_SLOTS):
            most = min(self.rounds, MAX_SLOTS)
            raise checks.InvalidInput(f"Expected at most {most} slots: slots are different rounds")
        if self.threshold is not None:
            checks.count(minimum=0, threshold=self.threshold)
            if self.threshold >= self.slots:
                raise checks.InvalidInput(f"Expected threshold < slots={self.slots}")
        if (self.method == "tree") != (self.changes is not None):
            raise checks.InvalidInput('Expected changes with method "tree", and only with it')
        if self.flips is not msgspec.UNSET:
            if self.method != "tree":
                raise checks.InvalidInput('Expected flips only with method "tree"')
            checks.one_of(("stretches",), flips=self.flips)
        if self.marks is not msgspec.UNSET:
            checks.one_of(("slots",), marks=self.marks)
        if self.changes is not None:
            checks.count(changes=self.changes)
            if self.changes > MAX_SLOTS:
                raise checks.InvalidInput(
                    f"Expected at most {MAX_SLOTS} changes: with more, other methods win"
                )

    @property
    def law(self) -> MaskLaw:
        """The law of a user's secret coins: for `rappor` that of each, else of all together.

        Of a tree whose tickets have different numbers of flips, the law with the most.
        """
        return self.law_at(0)

    def law_at(self, level: int) -> MaskLaw:
        """The law of the coins of a ticket of this level; all methods but `tree` have only one."""
        most = self.changes
        if most is not None:
            most = min(most, self.rounds if self.flips is msgspec.UNSET else self.rounds >> level)
        return _law(self.method, self.epsilon, self.rounds, self.slots, self.threshold, most)

    @property
    def attenuation(self) -> float:
        """c: a report is right with probability (1 + c)/2, or more for some of a tree's levels."""
        return self.law.attenuation

    @property
    def event(self) -> LocalEvent:
        """What taking part costs a user, over all rounds."""
        return LocalEvent(self.epsilon)

    @property
    def levels(self) -> int:
        """`tree`: how many lengths of stretch there are (1, 2, 4, … rounds)."""
        return self.rounds.bit_length()

    @property
    def cells(self) -> int:
        """How many counters a tally has."""
        if self.method != "tree":
            return self.rounds
        return sum(self.rounds >> level for level in range(self.levels))

    def digest(self) -> bytes:
        """Identifies this description: what tickets are bound to."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).digest()

    def to_toml(self) -> str:
        """The survey as a commented file."""
        return _to_toml(self)


def parse_survey(text: str) -> Survey:
    """A survey from TOML; what is wrong is said by name."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:  # also numbers too long, lists too deep
        raise checks.InvalidInput(f"Expected TOML: {problem}") from None
    try:
        return msgspec.convert(table, Survey)
    except msgspec.ValidationError as problem:
        raise checks.InvalidInput(f"In the survey: {problem}") from None


def read_survey(path: str | Path) -> Survey:
    """A survey from a TOML file."""
    return parse_survey(read_text(path))


@lru_cache(maxsize=256)
def _law(
    method: Method,
    epsilon: float,
    rounds: int,
    slots: int,
    threshold: int | None,
    flips: int | None,
) -> MaskLaw:
    if method == "rappor":
        return mask_law(epsilon / rounds, 1)
    if method == "tree":
        assert flips is not None
        return _best_law(epsilon, flips)
    if threshold is None:
        return _best_law(epsilon, slots)
    return mask_law(epsilon, slots, threshold)


def _best_law(epsilon: float, slots: int) -> MaskLaw:
    """The law whose reports are right most often."""
    laws = (mask_law(epsilon, slots, threshold) for threshold in range(slots))
    return max(laws, key=lambda law: law.exact_attenuation)


def _to_toml(survey: Survey) -> str:
    lines = [f"name = {toml_value(survey.name)}"]
    if survey.question:
        lines.append(f"question = {toml_value(survey.question)}")
    lines.append(f"rounds = {survey.rounds}")
    if survey.start is not None:
        lines.append(f"start = {survey.start.isoformat().replace('+00:00', 'Z')}")
        lines.append(f"round_seconds = {survey.round_seconds!r}")
    lines.append("# For one user's reports over all rounds together.")
    lines.append(f"epsilon = {survey.epsilon!r}")
    lines.append(f"method = {toml_value(survey.method)}")
    if survey.method == "masks":
        lines.append(f"slots = {survey.slots}")
    if survey.threshold is not None:
        lines.append(f"threshold = {survey.threshold}")
    if survey.changes is not None:
        lines.append(f"changes = {survey.changes}")
    if survey.flips is not msgspec.UNSET:
        lines.append(f"flips = {toml_value(survey.flips)}")
    if survey.marks is not msgspec.UNSET:
        lines.append("# Each report has a mark of its own.")
        lines.append(f"marks = {toml_value(survey.marks)}")
    return "\n".join(lines) + "\n"
