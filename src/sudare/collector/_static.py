"""Files for browsers: the dashboard, the page for trying it, the client, the description.

Only files that lie in the folder `pages`, by plain names; nothing is loaded from anywhere else.
"""

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from sudare.collector._messages import Refusal

if TYPE_CHECKING:
    from sudare.collector._service import Service

JSON = "application/json"
FOLDER = Path(__file__).parent / "pages"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*(\.[a-z0-9]+)+", re.ASCII)
_CLIENT = ("rules.js", "client.js")
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./pages/rules\.js";\n', re.MULTILINE)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}


async def dashboard(service: "Service", request: Request) -> Response:
    """The dashboard."""
    return _answer(request, "dashboard.html")


async def try_page(service: "Service", request: Request) -> Response:
    """A page on which the visitor's browser becomes a client."""
    return _answer(request, "try.html")


async def client(service: "Service", request: Request) -> Response:
    """The browser's client, one ES module that loads nothing else."""
    files = tuple((FOLDER / name, (FOLDER / name).lstat().st_mtime_ns) for name in _CLIENT)
    data, tag = _client(files)
    return tagged(request, tag, lambda: data, _TYPES[".js"])


async def page_file(service: "Service", request: Request) -> Response:
    """What the pages load."""
    return _answer(request, request.path_params["file"])


async def interface(service: "Service", request: Request) -> Response:
    """The interface description."""
    return tagged(request, _tag(service.document), lambda: service.document, JSON)


def tagged(request: Request, tag: str, body: Callable[[], bytes], media: str) -> Response:
    """The page, or 304 if the client has this version."""
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    answer = Response(body(), headers=headers)
    answer.headers["content-type"] = media
    return answer


def client_module() -> bytes:
    """The client and the rules it goes by, in one: what pages of other origins import."""
    rules, own = ((FOLDER / name).read_text(encoding="utf-8") for name in _CLIENT)
    alone = _IMPORT.sub("", own, count=1)
    joined = re.sub(r"^export (?=[a-z])", "", rules, flags=re.MULTILINE)
    return f"{alone.rstrip()}\n\n{joined}\nexport {{ pack }};\n".encode()


@lru_cache(maxsize=4)
def _client(files: tuple[tuple[Path, int], ...]) -> tuple[bytes, str]:
    data = client_module()
    return data, _tag(data)


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
    data, tag = _read(path, seen.st_mtime_ns, seen.st_size)
    return tagged(request, tag, lambda: data, media)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int, size: int) -> tuple[bytes, str]:
    data = path.read_bytes()
    return data, _tag(data)


def _tag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:20]}"'
