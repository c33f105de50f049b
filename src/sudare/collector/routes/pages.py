"""Files for browsers: the dashboard, the page for trying it, the client, the description.

Only files that lie in the folder `pages`, by plain names; nothing is loaded from anywhere else.
"""

import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from sudare.collector.errors import Refusal
from sudare.collector.routes.table import JSON, Content, Endpoint

if TYPE_CHECKING:
    from sudare.collector.service import Service

FOLDER = Path(__file__).parents[1] / "pages"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*(\.[a-z0-9]+)+", re.ASCII)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
_ANY = {"type": "string"}


class _File(NamedTuple):
    data: bytes
    tag: str
    media: str


async def dashboard(service: "Service", request: Request) -> Response:
    """The dashboard."""
    return _answer(request, "dashboard.html")


async def try_page(service: "Service", request: Request) -> Response:
    """A page on which the visitor's browser becomes a client."""
    return _answer(request, "try.html")


async def client(service: "Service", request: Request) -> Response:
    """The browser's client, an ES module."""
    return _answer(request, "client.js")


async def page_file(service: "Service", request: Request) -> Response:
    """What the pages load."""
    return _answer(request, request.path_params["file"])


async def interface(service: "Service", request: Request) -> Response:
    """The interface description."""
    return _tagged(request, _File(service.document, _tag(service.document), JSON))


def _answer(request: Request, name: str) -> Response:
    if not _NAME.fullmatch(name):
        raise Refusal("not_found")
    path = FOLDER / name
    media = _TYPES.get(path.suffix)
    try:
        seen = path.lstat()
    except OSError:
        raise Refusal("not_found") from None
    if media is None or not path.is_file():
        raise Refusal("not_found")
    return _tagged(request, _read(path, seen.st_mtime_ns, seen.st_size, media))


@lru_cache(maxsize=64)
def _read(path: Path, changed: int, size: int, media: str) -> _File:
    data = path.read_bytes()
    return _File(data, _tag(data), media)


def _tag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:20]}"'


def _tagged(request: Request, file: _File) -> Response:
    headers = {"etag": file.tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    answer = Response(file.data, headers=headers)
    answer.headers["content-type"] = file.media
    return answer


ENDPOINTS = (
    Endpoint(
        "GET", "/openapi.json", "This description", 200, Content(JSON, {"type": "object"}),
        handle=interface, more=((304, None),),
    ),
    Endpoint(
        "GET", "/", "The dashboard", 200, Content("text/html", _ANY), ("not_found",),
        handle=dashboard, more=((304, None),),
    ),
    Endpoint(
        "GET", "/try", "Take part from a browser", 200, Content("text/html", _ANY),
        ("not_found",), handle=try_page, more=((304, None),),
    ),
    Endpoint(
        "GET", "/client.js", "The browser's client, an ES module", 200,
        Content("text/javascript", _ANY), ("not_found",), handle=client, more=((304, None),),
    ),
    Endpoint(
        "GET", "/pages/{file}", "What the pages load", 200, Content("*/*", _ANY),
        ("not_found",), handle=page_file, more=((304, None),),
    ),
)  # fmt: skip
