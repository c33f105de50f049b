"""What goes over the wire: the bodies of requests, of answers and of refusals.

Times are ISO 8601 in UTC. Marks are 16 bytes in base64url without padding. Every refusal has one
shape:

    {"error": {"code": "too_late", "message": "This report's round is over."}}

Messages are fixed texts: nothing that was sent, and nothing about anyone, is ever repeated. What is
not foreseen is answered with `internal`, counted, and logged without its message.
"""

import binascii
import math
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from sudare.collector._rounds import Round
from sudare.counting import MARK_BYTES, PACKED, Method, Ticket, wire
from sudare.foundations import checks

MOST_TICKETS = 10_000
"""In one request, by the operator."""
MOST_RECORDS = 100_000
"""Reports in one packed batch."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of any other name are refused."""


class Law(wire.Law, frozen=True, forbid_unknown_fields=True):
    __doc__ = wire.Law.__doc__


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
    flips: Literal["stretches"] | msgspec.UnsetType = msgspec.UNSET
    """Left out where the survey leaves it out."""
    marks: Literal["slots"] | msgspec.UnsetType = msgspec.UNSET
    """Likewise."""
    dashboard: Literal["private"] | msgspec.UnsetType = msgspec.UNSET
    """Estimates are read with a token; left out where anyone may read them."""


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
    mark: wire.Mark
    rounds: tuple[int, ...]
    level: int


class Tickets(Message, frozen=True):
    """Tickets that nobody else has."""

    tickets: list[IssuedTicket]


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


class Summary(Estimates, frozen=True):
    """Some of the published rounds, in order: enough for a picture of all."""

    reporters: int
    """Reports counted in all published rounds together."""


class Rehearsed(Message, frozen=True):
    """What the latest rounds of a rehearsal would show; nobody is counted by it."""

    rehearsal: Literal[True]
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
    paused: bool
    """No round is published, as the collector's clock is in doubt."""


class SessionRequest(Message, frozen=True):
    """A viewer's or the operator's token."""

    token: Annotated[str, Meta(min_length=1, max_length=512)]


class EnrolmentRequest(Message, frozen=True):
    """Whether tickets are handed out."""

    open: bool


def issued(ticket: Ticket) -> IssuedTicket:
    """A ticket as it is sent."""
    mark = wire.mark_text(ticket.mark)
    return IssuedTicket(ticket.survey.hex(), ticket.serial, mark, ticket.rounds, ticket.level)


class _Sent(wire.SentReport, frozen=True):
    """Its mark is checked by packing, which is faster than a pattern."""

    mark: str


_decode = msgspec.json.Decoder(_Sent).decode
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
    return PACKED.pack(sent.serial, sent.slot, sent.bit, mark)


class Problem(NamedTuple):
    """A kind of refusal: its code is what programs compare, its message is for people."""

    code: str
    status: int
    message: str
    retry_seconds: int | None = None


class ErrorDetail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which refusal it is, for programs and for people."""

    code: str
    message: str


class ErrorBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of every refusal."""

    error: ErrorDetail


PROBLEMS: dict[str, Problem] = {
    problem.code: problem
    for problem in (
        Problem("malformed", 400, "This is not what the interface description asks for here."),
        Problem("unknown_slot", 400, "The ticket has no such slot."),
        Problem("unauthorised", 401, "This needs a token that is right for it."),
        Problem("wrong_mark", 403, "The ticket's mark is wrong."),
        Problem("enrolment_closed", 403, "No tickets are being handed out at present."),
        Problem("not_found", 404, "There is nothing here."),
        Problem("unknown_survey", 404, "There is no such survey here."),
        Problem("wrong_method", 405, "This address takes other methods."),
        Problem("too_slow", 408, "The request took too long to arrive."),
        Problem("too_late", 410, "This report's round is over."),
        Problem("oversized", 413, "The request is too large."),
        Problem("wrong_type", 415, "The content type is not one that is understood here."),
        Problem("too_early", 425, "This report's round has not begun."),
        Problem("rate_limited", 429, "Too many requests: wait a little, then try again."),
        Problem("internal", 500, "Something went wrong here. Nothing may have been done."),
        Problem("unavailable", 503, "Not possible at the moment: try again.", 2),
    )
}
"""Every refusal there is."""


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
"""Headers of every answer."""


class Refusal(Exception):
    """Raised by a route to answer with one of `PROBLEMS`."""

    def __init__(
        self, code: str, *, retry_seconds: float | None = None, allow: bytes | None = None
    ) -> None:
        super().__init__(code)
        self.problem = PROBLEMS[code]
        self.retry_seconds = retry_seconds
        self.allow = allow
        """Methods that would be taken."""


def body_of(code: str) -> bytes:
    """The body of a refusal."""
    return _BODIES[code]


def headers_of(code: str, retry_seconds: float | None = None) -> list[tuple[bytes, bytes]]:
    """The headers a refusal has beside those of every answer."""
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    seconds = retry_seconds if retry_seconds is not None else PROBLEMS[code].retry_seconds
    if seconds is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(seconds))).encode()))
    if code == "unauthorised":
        headers.append((b"www-authenticate", b"Bearer"))
    if code in ("oversized", "too_slow"):
        # What is left of the request is not read.
        headers.append((b"connection", b"close"))
    return headers


_BODIES = {
    code: msgspec.json.encode(ErrorBody(ErrorDetail(code, problem.message)))
    for code, problem in PROBLEMS.items()
}
