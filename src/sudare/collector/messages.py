"""What goes over the wire: the bodies of requests and answers.

Times are ISO 8601 in UTC. Marks are 16 bytes in base64url without padding.
"""

import base64
import binascii
import struct
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sudare import checks
from sudare.collector.engine import Round
from sudare.counting import Method, Survey, Ticket
from sudare.counting.tickets import MARK_BYTES, MAX_SERIAL

MOST_TICKETS = 10_000
"""In one request, by the operator."""
MOST_RECORDS = 100_000
"""Reports in one packed batch."""
ID_DIGITS = 16

Serial = Annotated[int, Meta(ge=0, le=MAX_SERIAL)]
Slot = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Bit = Annotated[int, Meta(ge=0, le=1)]
Mark = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{22}$")]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of any other name are refused."""


class Law(Message, frozen=True):
    """The law of a user's secret coins, in whole numbers too large for some languages' numbers."""

    slots: int
    threshold: int
    near_weight: str
    far_weight: str


class PredictedError(Message, frozen=True):
    """What the plan says about this many users: the largest error over all rounds."""

    users: int
    typical: float
    bound: float


class Description(Message, frozen=True):
    """Everything a client needs to take part, and to check what it is promised."""

    id: str
    digest: str
    name: str
    question: str
    rounds: int
    epsilon: float
    method: Method
    slots: int
    threshold: int | None
    changes: int | None
    start: str
    round_seconds: float
    ends: str
    now: str
    grace_seconds: float
    skew_seconds: float
    late_seconds: float
    beta: float
    enrolment: Literal["open", "closed"]
    law: Law
    promise: str
    predicted_error: PredictedError | None


class Surveys(Message, frozen=True):
    """The surveys that are collected here."""

    surveys: list[Description]


class TicketRequest(Message, frozen=True):
    """How many tickets; more than one needs the operator's token."""

    count: Annotated[int, Meta(ge=1, le=MOST_TICKETS)] = 1


class IssuedTicket(Message, frozen=True):
    """A ticket, to be kept and used by one user only."""

    survey: str
    serial: int
    mark: Mark
    rounds: tuple[int, ...]
    level: int


class Tickets(Message, frozen=True):
    """Tickets that nobody else has."""

    tickets: list[IssuedTicket]


class SentReport(Message, frozen=True):
    """One report."""

    serial: Serial
    slot: Slot
    bit: Bit
    mark: Mark


class BatchAnswer(Message, frozen=True):
    """What became of a batch. Refused reports are named by their position, the first being 0."""

    counted: int
    repeated: int
    refused: dict[str, list[int]]


class NextRound(Message, frozen=True):
    """Which round is published next, and when."""

    round: int
    publishes: str


class Estimates(Message, frozen=True):
    """All published rounds, in order."""

    survey: str
    rounds: list[Round]
    next: NextRound | None
    beta: float


class Activity(Message, frozen=True):
    """What is happening now: no answer can be read from it."""

    now: str
    round: int | None
    reporters: dict[str, int]
    tickets: int
    refused: dict[str, int]
    collecting: bool


class EnrolmentRequest(Message, frozen=True):
    """Whether tickets are handed out."""

    open: bool


def survey_id(survey: Survey) -> str:
    """How a survey is called in addresses."""
    return survey.digest().hex()[:ID_DIGITS]


def issued(ticket: Ticket) -> IssuedTicket:
    """A ticket as it is sent."""
    mark = base64.urlsafe_b64encode(ticket.mark).decode().rstrip("=")
    return IssuedTicket(ticket.survey.hex(), ticket.serial, mark, ticket.rounds, ticket.level)


class _Sent(msgspec.Struct, forbid_unknown_fields=True):
    """As `SentReport`, without what packing checks anyway and a pattern would check more slowly."""

    serial: Serial
    slot: Slot
    bit: Bit
    mark: str


_decode = msgspec.json.Decoder(_Sent).decode
_pack = struct.Struct("<QIB16s").pack  # as `sudare.counting.reports.RECORD`
_PADDED = {22: "==", 24: ""}


def pack_report(body: bytes) -> bytes:
    """The packed record of a report in JSON; InvalidInput for anything else.

    A mark may also have the standard alphabet and its padding.
    """
    try:
        sent = _decode(body)
        text = sent.mark
        plain = text.replace("-", "+").replace("_", "/") + _PADDED[len(text)]
        mark = binascii.a2b_base64(plain, strict_mode=True)
    except (msgspec.MsgspecError, KeyError, ValueError):
        raise checks.InvalidInput("Expected a report") from None
    if len(mark) != MARK_BYTES:
        raise checks.InvalidInput("Expected a mark")
    return _pack(sent.serial, sent.slot, sent.bit, mark)
