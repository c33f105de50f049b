"""What devices and a collector say to each other: the answers' shapes, read with suspicion.

Everything here comes from a stranger. What does not make sense is a `CollectorError`; what makes
sense and would weaken a promise is a `checks.PrivacyError`.
"""

import base64
import binascii
from datetime import datetime
from typing import Annotated, Self

import msgspec

from sudare.counting._reports import Report
from sudare.counting._survey import Survey
from sudare.counting._tickets import MAX_SERIAL, Ticket
from sudare.foundations import checks

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Mark = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{22}$")]
FINAL = frozenset({"too_late", "wrong_mark", "unknown_slot", "malformed"})
"""Refusals that sending again cannot change."""
_SHORTEST_ROUND, _LONGEST_ROUND = 1e-3, 1e9
_UNREADABLE = (
    msgspec.MsgspecError,
    checks.InvalidInput,
    binascii.Error,
    KeyError,
    TypeError,
    ValueError,
    RecursionError,
)


class CollectorError(checks.SudareError):
    """The collector cannot be reached, or does not give what was asked for."""


class Law(msgspec.Struct, frozen=True):
    """The law of a user's secret coins, in whole numbers too large for some languages' numbers."""

    slots: int
    threshold: int
    near_weight: str
    far_weight: str

    @classmethod
    def of(cls, survey: Survey) -> Self:
        law = survey.law
        return cls(law.slots, law.threshold, str(law.near_weight), str(law.far_weight))


class Description(msgspec.Struct, frozen=True):
    """What a collector says of its survey beside the survey itself."""

    digest: str
    law: Law
    now: Annotated[datetime, msgspec.Meta(tz=True)]
    grace_seconds: Seconds
    late_seconds: Seconds

    @property
    def late(self) -> float:
        """For how long after its round a report is counted."""
        return max(self.grace_seconds, self.late_seconds)


class SentReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One report."""

    serial: Annotated[int, msgspec.Meta(ge=0, le=MAX_SERIAL)]
    slot: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
    bit: Annotated[int, msgspec.Meta(ge=0, le=1)]
    mark: Mark


class _Ticket(msgspec.Struct, frozen=True):
    survey: str
    serial: int
    mark: str
    rounds: tuple[int, ...] = ()
    level: int = 0


def survey_id(survey: Survey) -> str:
    """How a survey is called in addresses: 16 hexadecimal digits."""
    return survey.digest()[:8].hex()


def survey_path(survey: Survey, what: str = "") -> str:
    """Where a survey lives below a collector's address."""
    path = f"v1/surveys/{survey_id(survey)}"
    return f"{path}/{what}" if what else path


def read_description(body: bytes) -> tuple[Survey, Description]:
    """The survey of a collector's answer, of one survey or of a list that holds one."""
    try:
        told = msgspec.json.decode(body)
        if "surveys" in told:
            (told,) = told["surveys"]
        # What a collector leaves out has its default; the digest says whether that is right.
        fields = {name: told[name] for name in Survey.__struct_fields__ if name in told}
        return msgspec.convert(fields, Survey), msgspec.convert(told, Description)
    except _UNREADABLE:
        raise CollectorError(
            "Expected a collector at this address: what it says of its survey makes no sense"
        ) from None


def check_description(survey: Survey, described: Description, max_epsilon: float) -> None:
    """Refuse a collector whose survey is not what it says, or asks for more than was allowed."""
    if described.digest != survey.digest().hex() or described.law != Law.of(survey):
        raise checks.PrivacyError(
            "The collector's law or digest does not follow from its survey: nothing was sent"
        )
    check_epsilon(survey, max_epsilon)
    seconds = survey.round_seconds
    if survey.start is None or seconds is None:
        raise CollectorError("The collector's survey has no beginning yet: try again later")
    if not _SHORTEST_ROUND <= seconds <= _LONGEST_ROUND:
        raise CollectorError("The collector's rounds are of no length that a device can keep")


def check_epsilon(survey: Survey, max_epsilon: float) -> None:
    """Refuse a survey that asks for more than was allowed."""
    if survey.epsilon > max_epsilon:
        raise checks.PrivacyError(
            f"The survey asks for epsilon={survey.epsilon:g}, more than the "
            f"max_epsilon={max_epsilon:g} that is allowed here"
        )


def read_tickets(body: bytes) -> list[Ticket]:
    """The tickets that a collector issued; whoever enrols with one checks it."""
    try:
        told = msgspec.convert(msgspec.json.decode(body)["tickets"], list[_Ticket])
        return [_ticket(each) for each in told]
    except _UNREADABLE:
        raise CollectorError("The collector gave something that is no ticket") from None


def read_ticket(line: str | bytes) -> Ticket:
    """A ticket as it was handed out: one JSON object."""
    try:
        return _ticket(msgspec.json.decode(line, type=_Ticket))
    except _UNREADABLE:
        raise checks.InvalidInput(
            "Expected a ticket as it was handed out: one JSON object on a line"
        ) from None


def report_json(report: Report) -> bytes:
    """A report as a device posts it."""
    mark = mark_text(report.mark)
    return msgspec.json.encode(SentReport(report.serial, report.slot, report.bit, mark))


def mark_text(mark: bytes) -> str:
    """A mark in base64url, without padding."""
    return base64.urlsafe_b64encode(mark).rstrip(b"=").decode()


def error_code(body: bytes) -> str:
    """The reason code of a refusal; empty if it was not the collector that answered."""
    return _error(body, "code")


def error_message(body: bytes) -> str:
    """A refusal in words."""
    said = _error(body, "message")
    return said if said.isprintable() and 0 < len(said) <= 200 else "no reason given"


def _error(body: bytes, field: str) -> str:
    try:
        said = msgspec.json.decode(body)["error"][field]
    except _UNREADABLE:
        return ""
    return said if isinstance(said, str) else ""


def _ticket(told: _Ticket) -> Ticket:
    padded = told.mark + "=" * (-len(told.mark) % 4)
    mark = base64.b64decode(padded, altchars=b"-_", validate=True)
    return Ticket(bytes.fromhex(told.survey), told.serial, mark, told.rounds, told.level)
