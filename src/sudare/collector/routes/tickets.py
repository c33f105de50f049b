"""Handing out tickets: one to anyone who asks, within limits; many to the operator."""

from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from sudare.collector.errors import Refusal
from sudare.collector.messages import MOST_TICKETS, TicketRequest, Tickets, issued
from sudare.collector.routes.bodies import check_length, media_type
from sudare.collector.routes.table import JSON, Content, Endpoint
from sudare.collector.stores import StoreUnavailable

if TYPE_CHECKING:
    from sudare.collector.service import Service

_LONGEST_REQUEST = 256
_decode = msgspec.json.Decoder(TicketRequest).decode


async def issue_tickets(service: "Service", request: Request) -> Response:
    """New tickets; their serials are durable before they are sent."""
    headers = request.scope["headers"]
    check_length(headers, _LONGEST_REQUEST)
    body = await service.reader.read(request.receive, _LONGEST_REQUEST)
    count = 1
    if body:
        if media_type(headers) != b"application/json":
            raise Refusal("wrong_type")
        try:
            count = _decode(body).count
        except msgspec.MsgspecError:
            raise Refusal("malformed") from None
    by_operator = "authorization" in request.headers
    if by_operator or count > 1:
        service.require_operator(request.scope)
    else:
        if not service.collector.status().enrolment:
            raise Refusal("enrolment_closed")
        service.admit_enrolment(request.scope)
    try:
        tickets = await service.writer.run(service.collector.issue, count)
    except StoreUnavailable:
        raise Refusal("unavailable") from None
    service.metrics.tickets.inc(count)
    answer = msgspec.json.encode(Tickets([issued(each) for each in tickets]))
    return Response(answer, 201, {"cache-control": "no-store"}, JSON)


_PROBLEMS = (
    "malformed", "unauthorised", "enrolment_closed", "unknown_survey", "too_slow", "oversized",
    "wrong_type", "rate_limited", "unavailable",
)  # fmt: skip
ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/surveys/{id}/tickets",
        "Join the survey: get a ticket",
        201,
        Content(JSON, Tickets),
        _PROBLEMS,
        handle=issue_tickets,
        about="Keep the ticket, and give it to nobody. More than one at a time, at most "
        f"{MOST_TICKETS:,}, needs the operator's token; with it limits and closed enrolment do not "
        "apply.",
        takes=(Content(JSON, TicketRequest),),
        body_required=False,
    ),
)
