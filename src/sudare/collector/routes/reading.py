"""What anyone may read: the survey, its estimates, what is happening, all of it live."""

from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sudare.collector.errors import Refusal
from sudare.collector.messages import Activity, Description, Estimates, Surveys
from sudare.collector.routes.bodies import header
from sudare.collector.routes.table import JSON, Content, Endpoint, Query
from sudare.collector.stream import missed
from sudare.counting.survey import MAX_ROUNDS

if TYPE_CHECKING:
    from sudare.collector.service import Service

_SINCE = Query(
    "since",
    "Only rounds from this one on.",
    {"type": "integer", "minimum": 0, "maximum": MAX_ROUNDS},
)
_FRESH = {"cache-control": "no-cache"}


async def surveys(service: "Service", request: Request) -> Response:
    """The one survey of this collector."""
    return _json(msgspec.json.encode(Surveys([service.board.description()])))


async def describe(service: "Service", request: Request) -> Response:
    """The survey."""
    return _json(msgspec.json.encode(service.board.description()))


async def estimates(service: "Service", request: Request) -> Response:
    """All published rounds."""
    since = _since(request.query_params.getlist("since"))
    return _tagged(service, request, lambda: service.board.estimates(since or 0), JSON)


async def estimates_csv(service: "Service", request: Request) -> Response:
    """The same as a table."""
    answer = _tagged(service, request, service.board.csv, "text/csv; charset=utf-8")
    name = f"sudare-{service.board.id}.csv"
    answer.headers["content-disposition"] = f'attachment; filename="{name}"'
    return answer


async def activity(service: "Service", request: Request) -> Response:
    """What is happening now."""
    return _json(service.board.activity())


async def stream(service: "Service", scope: Scope, receive: Receive, send: Send) -> None:
    """Rounds and activity as they come."""
    request = Request(scope)
    since = _since(request.query_params.getlist("since"))
    seen = header(scope["headers"], b"last-event-id")
    board = service.board
    rounds = missed(board.rounds, None if seen is None else seen.decode("latin-1"), since)
    first = b"retry: 2000\n\n" + board.frames(rounds) + board.current_activity()
    if scope["method"] == "HEAD":
        await Response(headers={"cache-control": "no-store"}, media_type="text/event-stream")(
            scope, receive, send
        )
        return
    await service.stream.serve(first, receive, send)


def _json(body: bytes) -> Response:
    return Response(body, headers={"cache-control": "no-store"}, media_type=JSON)


def _tagged(service: "Service", request: Request, body: "object", media: str) -> Response:
    assert callable(body)
    tag = f'"{service.board.version}-{service.started}"'
    headers = _FRESH | {"etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    answer = Response(body(), headers=headers)
    answer.headers["content-type"] = media
    return answer


def _since(values: list[str]) -> int | None:
    if not values:
        return None
    text = values[-1]
    if len(values) > 1 or not (text.isascii() and text.isdigit()) or len(text) > 7:
        raise Refusal("malformed")
    if int(text) > MAX_ROUNDS:
        raise Refusal("malformed")
    return int(text)


ENDPOINTS = (
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
        Content(JSON, Estimates), ("malformed", "unknown_survey"), handle=estimates,
        query=(_SINCE,), more=((304, None),),
    ),
    Endpoint(
        "GET", "/v1/surveys/{id}/estimates.csv", "All published rounds as a table", 200,
        Content("text/csv", {"type": "string"}), ("unknown_survey",), handle=estimates_csv,
        more=((304, None),),
    ),
    Endpoint(
        "GET", "/v1/surveys/{id}/activity", "What is happening now", 200,
        Content(JSON, Activity), ("unknown_survey",), handle=activity,
    ),
    Endpoint(
        "GET", "/v1/surveys/{id}/stream", "Rounds and activity as they come", 200,
        Content("text/event-stream", {"type": "string"}),
        ("malformed", "unknown_survey", "unavailable"), raw=stream, query=(_SINCE,),
        about="Server-sent events: `round` (its id is round.revision, for Last-Event-ID) and "
        "`activity`. A viewer that says neither what it has seen nor `since` gets the latest "
        "rounds first.",
    ),
)  # fmt: skip
