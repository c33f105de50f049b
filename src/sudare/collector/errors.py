"""What the collector refuses, and how it says so: one shape for every error.

    {"error": {"code": "too_late", "message": "This report's round is over."}}

Messages are fixed texts: nothing that was sent, and nothing about anyone, is ever repeated. What is
not foreseen is answered with `internal`, counted, and logged without its message.
"""

import math
from typing import NamedTuple

import msgspec


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
        Problem("unauthorised", 401, "This needs the operator's token."),
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
