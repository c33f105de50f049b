"""What only the operator may do, by a token in the Authorization header.

There are no cookies, so nothing a browser does by itself can carry the token; and pages of other
origins are not allowed to send it.
"""

from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from sudare.collector.errors import Refusal
from sudare.collector.messages import EnrolmentRequest
from sudare.collector.routes.bodies import check_length, media_type
from sudare.collector.routes.table import JSON, Content, Endpoint
from sudare.collector.stores import StoreUnavailable

if TYPE_CHECKING:
    from sudare.collector.service import Service

_LONGEST_REQUEST = 256
_decode = msgspec.json.Decoder(EnrolmentRequest).decode


async def check_operator(service: "Service", request: Request) -> Response:
    """Whether a token is the operator's."""
    service.require_operator(request.scope)
    return Response(status_code=204, headers={"cache-control": "no-store"})


async def set_enrolment(service: "Service", request: Request) -> Response:
    """Open or close enrolment."""
    service.require_operator(request.scope)
    headers = request.scope["headers"]
    check_length(headers, _LONGEST_REQUEST)
    body = await service.reader.read(request.receive, _LONGEST_REQUEST)
    if media_type(headers) != b"application/json":
        raise Refusal("wrong_type")
    try:
        wanted = _decode(body)
    except msgspec.MsgspecError:
        raise Refusal("malformed") from None
    try:
        await service.writer.run(service.collector.set_enrolment, wanted.open)
    except StoreUnavailable:
        raise Refusal("unavailable") from None
    return Response(status_code=204, headers={"cache-control": "no-store"})


ENDPOINTS = (
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
)  # fmt: skip
