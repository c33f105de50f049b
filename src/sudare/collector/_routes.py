"""The routes of the interface: one table, from which they are served and described.

Reports are handled without a framework in between: one report in JSON is answered 204 as soon as it
is durable. A client that got no answer sends the same report again; it is answered in the same way
and counts once. A relay sends many, packed.

The operator shows a token in the Authorization header, which nothing that a browser does by itself
can carry, and which pages of other origins are not allowed to send. The one cookie there is lets a
browser read a private dashboard, and nothing else.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from sudare.collector import _rehearsing as rehearsing
from sudare.collector import _static as static
from sudare.collector._endpoints import Content, Endpoint, Query
from sudare.collector._limits import check_length, header, media_type
from sudare.collector._messages import (
    MOST_RECORDS,
    MOST_TICKETS,
    SECURITY,
    Activity,
    BatchAnswer,
    Description,
    EnrolmentRequest,
    Estimates,
    Refusal,
    Rehearsed,
    SessionRequest,
    Summary,
    Surveys,
    TicketRequest,
    Tickets,
    issued,
    pack_report,
)
from sudare.collector._pages import frames
from sudare.collector._sessions import ROLES, clearing
from sudare.collector._stream import seen_by
from sudare.collector._writer import Full
from sudare.collector.stores import REASONS, StoreUnavailable, Verdict
from sudare.counting import MAX_ROUNDS, RECORD, wire
from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.collector._service import Service


T = TypeVar("T")
JSON = static.JSON
PACKED = "application/octet-stream"
BINARY = {"type": "string", "format": "binary"}


class Pieces(Response):
    """An answer in pieces: the next is made when the one before has been taken."""

    def __init__(self, pieces: Iterator[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(headers=headers)
        self._pieces = pieces
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)  # others get their turn
        await send({"type": "http.response.body", "body": b"", "more_body": False})


_ROUND = {"type": "integer", "minimum": 0, "maximum": MAX_ROUNDS}
_SINCE = Query("since", "Only rounds from this one on.", _ROUND)
_UNTIL = Query("until", "Only rounds before this one.", _ROUND)
_READING = ("unauthorised", "rate_limited", "unavailable")
_NOT_STORED = {"cache-control": "no-store"}
_LONGEST_REQUEST = 256
_LONGEST_SESSION = 1024
"""Bytes of a request that is not a report."""
LONGEST_REPORT = 1024
"""Bytes of one report in JSON; about 80 are needed."""
_RECORD_BYTES = RECORD.itemsize
_LONGEST_BATCH = MOST_RECORDS * _RECORD_BYTES
_HEADERS = [
    (b"access-control-allow-origin", b"*"),
    (b"cache-control", b"no-store"),
    *SECURITY,
]
_DONE: Message = {"type": "http.response.start", "status": 204, "headers": _HEADERS}
_EMPTY: Message = {"type": "http.response.body", "body": b""}
_BATCH: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), *_HEADERS],
}
_ticket_request = msgspec.json.Decoder(TicketRequest).decode
_session_request = msgspec.json.Decoder(SessionRequest).decode
_enrolment_request = msgspec.json.Decoder(EnrolmentRequest).decode


# What anyone may read


async def surveys(service: "Service", request: Request) -> Response:
    """The one survey of this collector."""
    return _json(msgspec.json.encode(Surveys([service.board.description()])))


async def describe(service: "Service", request: Request) -> Response:
    """The survey."""
    return _json(msgspec.json.encode(service.board.description()))


async def estimates(service: "Service", request: Request) -> Response:
    """All published rounds."""
    since, until = (_number(request, name) for name in ("since", "until"))
    packed = _takes_deflate(request)
    return _pieces(
        service,
        request,
        lambda: service.board.estimates(since or 0, until, compressed=packed),
        JSON,
        packed,
    )


async def summary_of_rounds(service: "Service", request: Request) -> Response:
    """Enough of the published rounds for a picture of all."""
    packed = _takes_deflate(request)
    return _pieces(
        service, request, lambda: iter([service.board.summary(compressed=packed)]), JSON, packed
    )


async def estimates_csv(service: "Service", request: Request) -> Response:
    """The same as a table."""
    answer = _pieces(service, request, service.board.csv, "text/csv; charset=utf-8")
    name = f"sudare-{service.board.id}.csv"
    answer.headers["content-disposition"] = f'attachment; filename="{name}"'
    return answer


async def activity(service: "Service", request: Request) -> Response:
    """What is happening now."""
    return _json(service.board.activity())


async def stream(service: "Service", scope: Scope, receive: Receive, send: Send) -> None:
    """Rounds and activity as they come."""
    request = Request(scope)
    since = _number(request, "since")
    seen = header(scope["headers"], b"last-event-id")
    if scope["method"] == "HEAD":
        nothing = Response(headers=_NOT_STORED, media_type="text/event-stream")
        await nothing(scope, receive, send)
        return
    told = None if seen is None else seen.decode("latin-1")
    await service.stream.serve(
        _first(service, told, since), receive, send, service.client_of(scope)
    )


def _first(service: "Service", seen: str | None, since: int | None) -> Iterator[bytes]:
    """What a new viewer is sent before the news."""
    board = service.board
    begin, revised = seen_by(seen, since, len(board.rounds))
    yield b"retry: 2000\n\n"
    if revised:
        old = [board.rounds[t] for t in sorted(board.rounds.revised) if t < begin]
        yield frames([each for each in old if each.round < len(board.rounds)])
    for chunk in board.rounds.chunks(begin):
        yield chunk.frames()
    yield board.current_activity()


def _json(body: bytes) -> Response:
    return Response(body, headers=_NOT_STORED, media_type=JSON)


def _pieces(
    service: "Service",
    request: Request,
    pieces: Callable[[], Iterator[bytes]],
    media: str,
    packed: bool = False,
) -> Response:
    """An answer that is handed on as fast as it is taken, or word that nothing has changed."""
    tag = f'"{service.board.version}-{service.started}{"-d" * packed}"'
    headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if packed:
        headers["content-encoding"] = "deflate"
    answer = Pieces(pieces() if request.method == "GET" else iter(()), headers=headers)
    answer.headers["content-type"] = media
    return answer


def _takes_deflate(request: Request) -> bool:
    """Whether the client says that it can read what is compressed once for all."""
    told = request.headers.get("accept-encoding", "").lower()
    words = [word.partition(";") for word in told.replace(" ", "").split(",")]
    return any(name == "deflate" and weight != "q=0" for name, _, weight in words)


def _number(request: Request, name: str) -> int | None:
    values = request.query_params.getlist(name)
    if not values:
        return None
    text = values[-1]
    if len(values) > 1 or not (text.isascii() and text.isdigit()) or len(text) > 7:
        raise Refusal("malformed")
    if int(text) > MAX_ROUNDS:
        raise Refusal("malformed")
    return int(text)


# Taking part


async def issue_tickets(service: "Service", request: Request) -> Response:
    """New tickets; their serials are durable before they are sent."""
    count = (await _sent(service, request, _ticket_request) or TicketRequest()).count
    by_operator = "authorization" in request.headers
    if by_operator or count > 1:
        await service.require_operator(request.scope)
    else:
        if not service.collector.status().enrolment:
            raise Refusal("enrolment_closed")
        service.admit_enrolment(request.scope)
    try:
        tickets = await service.writer.issue(count)
    except StoreUnavailable:
        raise Refusal("unavailable") from None
    service.metrics.tickets.inc(count)
    answer = msgspec.json.encode(Tickets([issued(each) for each in tickets]))
    return Response(answer, 201, _NOT_STORED, JSON)


async def receive_reports(service: "Service", scope: Scope, receive: Receive, send: Send) -> None:
    """One report or a batch, counted and durable before it is answered."""
    headers = scope["headers"]
    service.admit_report(scope)
    kind = media_type(headers)
    if kind == b"application/json":
        check_length(headers, LONGEST_REPORT)
        body = await service.reader.read(receive, LONGEST_REPORT, scope)
        try:
            record = pack_report(body)
        except checks.InvalidInput:
            raise Refusal("malformed") from None
        verdicts = await _count(service, record, 1)
        if verdicts[0] > Verdict.REPEATED:
            raise Refusal(REASONS[verdicts[0]])
        await send(_DONE)
        await send(_EMPTY)
    elif kind == b"application/octet-stream":
        check_length(headers, _LONGEST_BATCH)
        body = await service.reader.read(receive, _LONGEST_BATCH, scope)
        count, rest = divmod(len(body), _RECORD_BYTES)
        if rest or not count:
            raise Refusal("malformed")
        verdicts = await _count(service, body, count)
        await send(_BATCH)
        await send({"type": "http.response.body", "body": summary(verdicts)})
    else:
        raise Refusal("wrong_type")


async def _count(service: "Service", records: bytes, count: int) -> bytes:
    try:
        verdicts = await service.writer.count(records, count)
    except Full:
        raise Refusal("unavailable") from None
    if verdicts is None:
        raise Refusal("unavailable")
    return verdicts


def summary(verdicts: bytes) -> bytes:
    """What became of a batch, in JSON."""
    if not any(verdicts):
        return b'{"counted":%d,"repeated":0,"refused":{}}' % len(verdicts)
    judged = np.frombuffer(verdicts, np.uint8)
    counts = np.bincount(judged, minlength=len(REASONS))
    refused = {
        REASONS[which]: np.flatnonzero(judged == which).tolist()
        for which in range(Verdict.REPEATED + 1, len(REASONS))
        if counts[which]
    }
    answer = BatchAnswer(int(counts[Verdict.COUNTED]), int(counts[Verdict.REPEATED]), refused)
    return msgspec.json.encode(answer)


# What only the operator may do


async def check_operator(service: "Service", request: Request) -> Response:
    """Whether a token is the operator's."""
    await service.require_operator(request.scope)
    return Response(status_code=204, headers=_NOT_STORED)


async def set_enrolment(service: "Service", request: Request) -> Response:
    """Open or close enrolment."""
    await service.require_operator(request.scope)
    wanted = await _sent(service, request, _enrolment_request, required=True)
    assert wanted is not None
    await _written(service, service.collector.set_enrolment, wanted.open)
    return Response(status_code=204, headers=_NOT_STORED)


async def open_session(service: "Service", request: Request) -> Response:
    """A cookie for whoever shows a token."""
    wanted = await _sent(
        service, request, _session_request, required=True, longest=_LONGEST_SESSION
    )
    assert wanted is not None
    role = await service.role_of(request.scope, wanted.token.strip(), ROLES)
    secure = request.headers.get("x-forwarded-proto", "").lower() == "https"
    headers = {**_NOT_STORED, "set-cookie": service.sessions.cookie(role, secure=secure)}
    return Response(status_code=204, headers=headers)


async def close_session(service: "Service", request: Request) -> Response:
    """The browser forgets it."""
    return Response(status_code=204, headers={**_NOT_STORED, "set-cookie": clearing()})


async def _sent(
    service: "Service",
    request: Request,
    decode: Callable[[bytes], T],
    *,
    required: bool = False,
    longest: int = _LONGEST_REQUEST,
) -> T | None:
    """A small JSON body, or None where there is none and none is required."""
    headers = request.scope["headers"]
    check_length(headers, longest)
    body = await service.reader.read(request.receive, longest, request.scope)
    if not body and not required:
        return None
    if media_type(headers) != b"application/json":
        raise Refusal("wrong_type")
    try:
        return decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # the second for keys that are not UTF-8
        raise Refusal("malformed") from None


async def _written(service: "Service", job: Callable[..., T], *arguments: Any) -> T:
    """What a job in the writer's thread gave."""
    try:
        return await service.writer.run(job, *arguments)
    except StoreUnavailable:
        raise Refusal("unavailable") from None


_ANY = {"type": "string"}
_UNCHANGED = ((304, None),)
ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET", "/v1/surveys", "The surveys collected here", 200, Content(JSON, Surveys),
        handle=surveys,
    ),
    Endpoint(
        "GET", "/v1/surveys/{id}", "A survey: what is asked, when, and what is promised", 200,
        Content(JSON, Description), ("unknown_survey",), handle=describe,
    ),
    Endpoint(
        "GET", "/v1/surveys/{id}/estimates", "All published rounds", 200,
        Content(JSON, Estimates), ("malformed", "unknown_survey", *_READING), handle=estimates,
        reading=True,
        query=(_SINCE, _UNTIL), more=_UNCHANGED,
    ),
    Endpoint(
        "GET", "/v1/surveys/{id}/summary", "Enough of the published rounds to draw all", 200,
        Content(JSON, Summary), ("unknown_survey", *_READING), handle=summary_of_rounds,
        reading=True,
        more=_UNCHANGED,
        about="At most a thousand rounds: the latest 300, and of the earlier ones the lowest and "
        "the highest of each stretch. If there are no more than a thousand, all.",
    ),
    Endpoint(
        "GET", "/v1/surveys/{id}/estimates.csv", "All published rounds as a table", 200,
        Content("text/csv", _ANY), ("unknown_survey", *_READING), handle=estimates_csv,
        reading=True,
        more=_UNCHANGED,
    ),
    Endpoint(
        "GET", "/v1/surveys/{id}/activity", "What is happening now", 200,
        Content(JSON, Activity), ("unknown_survey", *_READING), handle=activity, reading=True,
    ),
    Endpoint(
        "GET", "/v1/surveys/{id}/stream", "Rounds and activity as they come", 200,
        Content("text/event-stream", _ANY),
        ("malformed", "unknown_survey", *_READING), raw=stream, query=(_SINCE,), reading=True,
        about="Server-sent events: `round` (its id is round.revision, for Last-Event-ID) and "
        "`activity`. A viewer that says neither what it has seen nor `since` gets the latest "
        "rounds first.",
    ),
    Endpoint(
        "POST", "/v1/surveys/{id}/tickets", "Join the survey: get a ticket", 201,
        Content(JSON, Tickets),
        (
            "malformed", "unauthorised", "enrolment_closed", "unknown_survey", "too_slow",
            "oversized", "wrong_type", "rate_limited", "unavailable",
        ),
        handle=issue_tickets,
        about="Keep the ticket, and give it to nobody. More than one at a time, at most "
        f"{MOST_TICKETS:,}, needs the operator's token; with it limits and closed enrolment do not "
        "apply.",
        takes=(Content(JSON, TicketRequest),), body_required=False,
    ),
    Endpoint(
        "POST", "/v1/surveys/{id}/reports", "Send one report, or a relay's packed batch", 204, None,
        (
            "malformed", "unknown_slot", "wrong_mark", "unknown_survey", "too_slow", "too_late",
            "oversized", "wrong_type", "too_early", "rate_limited", "unavailable",
        ),
        raw=receive_reports,
        about="One report in JSON is answered 204 when it is durable, counted or counted before. "
        f"A batch is up to {MOST_RECORDS:,} records of {_RECORD_BYTES} bytes (serial: 8 bytes, "
        "slot: 4, bit: 1, mark: 16; little-endian) and is answered 200 with what became of them.",
        takes=(Content(JSON, wire.SentReport), Content(PACKED, BINARY)),
        more=((200, Content(JSON, BatchAnswer)),),
    ),
    Endpoint(
        "GET", "/v1/surveys/{id}/operator", "Check the operator's token", 204, None,
        ("unauthorised", "unknown_survey", "rate_limited", "unavailable"), handle=check_operator,
        operator=True,
    ),
    Endpoint(
        "PUT", "/v1/surveys/{id}/enrolment", "Open or close enrolment", 204, None,
        (
            "malformed", "unauthorised", "unknown_survey", "too_slow", "oversized", "wrong_type",
            "rate_limited", "unavailable",
        ),
        handle=set_enrolment, takes=(Content(JSON, EnrolmentRequest),), operator=True,
    ),
    Endpoint(
        "PUT", "/v1/surveys/{id}/session", "Let this browser read a private dashboard", 204, None,
        (
            "malformed", "unauthorised", "unknown_survey", "too_slow", "oversized", "wrong_type",
            "rate_limited", "unavailable",
        ),
        handle=open_session, takes=(Content(JSON, SessionRequest),), own_pages=True,
        about="With a viewer's or the operator's token in the body, sets a cookie for twelve "
        "hours: HttpOnly, SameSite=Strict, for this survey's addresses only.",
    ),
    Endpoint(
        "DELETE", "/v1/surveys/{id}/session", "Take the cookie away", 204, None,
        ("unknown_survey",), handle=close_session, own_pages=True,
    ),
    Endpoint(
        "GET", "/rehearsal/v1/surveys", "The rehearsal of the survey", 200, Content(JSON, Surveys),
        handle=rehearsing.rehearsals,
        about="A survey of its own, for trying it: same question, law and rounds, other name and "
        "id. Its tickets are worth nothing in the survey itself; its counts are in memory only.",
    ),
    Endpoint(
        "GET", "/rehearsal/v1/surveys/{id}", "The rehearsal, as a survey is described", 200,
        Content(JSON, Description), ("unknown_survey",), handle=rehearsing.describe_rehearsal,
    ),
    Endpoint(
        "POST", "/rehearsal/v1/surveys/{id}/tickets", "Join the rehearsal", 201,
        Content(JSON, Tickets), ("unknown_survey", "rate_limited"),
        handle=rehearsing.rehearsal_ticket,
    ),
    Endpoint(
        "POST", "/rehearsal/v1/surveys/{id}/reports", "Send one report of the rehearsal", 204, None,
        (
            "malformed", "unknown_slot", "wrong_mark", "unknown_survey", "too_slow", "too_late",
            "oversized", "wrong_type", "too_early", "rate_limited", "unavailable",
        ),
        handle=rehearsing.rehearse_report, takes=(Content(JSON, wire.SentReport),),
    ),
    Endpoint(
        "GET", "/rehearsal/v1/surveys/{id}/estimates", "What the rehearsal would show", 200,
        Content(JSON, Rehearsed), ("unknown_survey",), handle=rehearsing.rehearsal_estimates,
        about="Of the latest 20 rounds, from the reports that this process has taken.",
    ),
    Endpoint(
        "GET", "/openapi.json", "This description", 200, Content(JSON, {"type": "object"}),
        handle=static.interface, more=_UNCHANGED,
    ),
    Endpoint(
        "GET", "/", "The dashboard", 200, Content("text/html", _ANY), ("not_found",),
        handle=static.dashboard, more=_UNCHANGED,
    ),
    Endpoint(
        "GET", "/try", "Rehearse taking part, from a browser", 200, Content("text/html", _ANY),
        ("not_found",), handle=static.try_page, more=_UNCHANGED,
    ),
    Endpoint(
        "GET", "/client.js", "The browser's client, an ES module", 200,
        Content("text/javascript", _ANY), ("not_found",), handle=static.client, more=_UNCHANGED,
    ),
    Endpoint(
        "GET", "/pages/{file}", "What the pages load", 200, Content("*/*", _ANY),
        ("not_found",), handle=static.page_file, more=_UNCHANGED,
    ),
)  # fmt: skip
