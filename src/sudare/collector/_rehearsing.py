"""The routes of the rehearsal: the survey's own, one level down, and nothing they do is counted.

What a visitor's browser runs is the same client as everywhere, pointed at another address.
"""

from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from sudare.collector._limits import check_length, media_type
from sudare.collector._messages import Refusal, Surveys, Tickets, issued, pack_report
from sudare.collector._rehearsal import Full
from sudare.collector.stores import REASONS, Verdict
from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.collector._service import Service

PATH = "/rehearsal"
"""What the addresses of the rehearsal begin with."""
_LONGEST_REPORT = 1024
_NOT_STORED = {"cache-control": "no-store"}
_JSON = "application/json"


async def rehearsals(service: "Service", request: Request) -> Response:
    """The rehearsal of this collector's survey."""
    return _answer(msgspec.json.encode(Surveys([service.rehearsal.board.description()])))


async def describe_rehearsal(service: "Service", request: Request) -> Response:
    """The same, for a device that takes part."""
    return _answer(msgspec.json.encode(service.rehearsal.board.description()))


async def rehearsal_ticket(service: "Service", request: Request) -> Response:
    """A ticket for one visitor."""
    service.admit_rehearsal(request.scope, ticket=True)
    made = issued(service.rehearsal.issue())
    return _answer(msgspec.json.encode(Tickets([made])), 201)


async def rehearse_report(service: "Service", request: Request) -> Response:
    """One report, counted among those of the rehearsal."""
    scope = request.scope
    service.admit_rehearsal(scope, ticket=False)
    if media_type(scope["headers"]) != _JSON.encode():
        raise Refusal("wrong_type")
    check_length(scope["headers"], _LONGEST_REPORT)
    body = await service.reader.read(request.receive, _LONGEST_REPORT, scope)
    try:
        verdict = service.rehearsal.count(pack_report(body))
    except checks.InvalidInput:
        raise Refusal("malformed") from None
    except Full:
        raise Refusal("unavailable") from None
    if verdict > Verdict.REPEATED:
        raise Refusal(REASONS[verdict])
    return Response(status_code=204, headers=_NOT_STORED)


async def rehearsal_estimates(service: "Service", request: Request) -> Response:
    """What its latest rounds would show."""
    return _answer(service.rehearsal.estimates())


def _answer(body: bytes, status: int = 200) -> Response:
    return Response(body, status, _NOT_STORED, _JSON)
