"""The collector as an ASGI application.

Reports go straight to their route; everything else through Starlette's router. Around both: one
shape for refusals, headers that let browsers do nothing but what the pages need, and the rule for
pages of other origins: reading, reporting and joining are open to them, without credentials; what
needs the operator's token is not.
"""

import asyncio
from contextlib import suppress

from starlette.requests import Request
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from sudare.collector import monitoring
from sudare.collector._endpoints import Endpoint, RawHandler
from sudare.collector._limits import Gone
from sudare.collector._messages import SECURITY, Refusal, body_of, headers_of
from sudare.collector._rehearsing import PATH as REHEARSAL
from sudare.collector._routes import ENDPOINTS, receive_reports
from sudare.collector._service import Service

_ANY_ORIGIN = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"etag, retry-after"),
)
_PRIVATE = ((b"cache-control", b"private, no-cache"), (b"vary", b"authorization, cookie"))
_PREFLIGHT = (
    (b"access-control-allow-headers", b"content-type, last-event-id, if-none-match, cache-control"),
    (b"access-control-max-age", b"86400"),
)


class App:
    """The application of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reports = f"/v1/surveys/{service.board.id}/reports"
        paths: dict[str, list[Endpoint]] = {}
        for endpoint in ENDPOINTS:
            paths.setdefault(endpoint.path, []).append(endpoint)
        places = [Route(path, _Place(service, each)) for path, each in paths.items()]
        self._router = Router(places, redirect_slashes=False, default=_nowhere)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == self._reports and scope["method"] == "POST":
            await _guarded(self._service, receive_reports, scope, receive, send, shared=True)
        else:
            await _guarded(self._service, self._route, scope, receive, send, shared=False)

    async def _route(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router(scope, receive, send)


class _Place:
    """All that can be done at one path."""

    def __init__(self, service: Service, endpoints: list[Endpoint]) -> None:
        self._service = service
        self._methods = {each.method: each for each in endpoints}
        if "GET" in self._methods:
            self._methods["HEAD"] = self._methods["GET"]
        self._private = service.private and any(each.reading for each in endpoints)
        self._shared = all(each.shared for each in endpoints) and not self._private
        self._allow = ", ".join(sorted({*self._methods, "OPTIONS"})).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _guarded(self._service, self._serve, scope, receive, send, shared=self._shared)

    async def _serve(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "OPTIONS":
            headers = [(b"allow", self._allow), *SECURITY]
            if self._shared:
                headers += [*_ANY_ORIGIN, (b"access-control-allow-methods", self._allow)]
                headers += _PREFLIGHT
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        endpoint = self._methods.get(scope["method"])
        if endpoint is None:
            raise Refusal("wrong_method", allow=self._allow)
        here = service.rehearsal if endpoint.rehearsal else service.board
        if scope["path_params"].get("id", here.id) != here.id:
            raise Refusal("unknown_survey")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *SECURITY]
                if self._private:  # what one viewer was sent is not for others behind a cache
                    headers = [each for each in headers if each[0].lower() != b"cache-control"]
                    headers += _PRIVATE
                message["headers"] = [*headers, *_ANY_ORIGIN] if self._shared else headers
            await send(message)

        if endpoint.method == "GET":
            service.admit_read(scope)
        if endpoint.reading:
            await service.require_viewer(scope)
        if endpoint.raw is not None:
            await endpoint.raw(service, scope, receive, with_headers)
            return
        assert endpoint.handle is not None
        answer = await endpoint.handle(service, Request(scope, receive))
        await answer(scope, receive, with_headers)


async def _guarded(
    service: Service,
    handle: RawHandler,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    shared: bool,
) -> None:
    """Answer with one shape of refusal whatever happens."""
    try:
        await handle(service, scope, receive, send)
    except asyncio.CancelledError:
        return  # the process is about to go
    except Gone:
        # A client may stop sending and still listen; without an answer the server would say 500.
        with suppress(Exception):
            await _refuse(send, Refusal("malformed"), shared)
    except Refusal as refusal:
        if not scope["path"].startswith(f"{REHEARSAL}/"):  # of it nothing is counted
            service.refused(refusal.problem.code)
        await _refuse(send, refusal, shared)
    except Exception as problem:
        monitoring.fault(scope["method"], problem)
        service.metrics.failed(expected=False)
        await _refuse(send, Refusal("internal"), shared)


async def _refuse(send: Send, refusal: Refusal, shared: bool) -> None:
    code = refusal.problem.code
    headers = [*headers_of(code, refusal.retry_seconds), *SECURITY]
    if refusal.allow is not None:
        headers.append((b"allow", refusal.allow))
    if shared:
        headers += _ANY_ORIGIN
    status = refusal.problem.status
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body_of(code)})


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    raise Refusal("not_found")
