"""What the table of routes is made of: a method of a path, as it is served and described."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sudare.collector import _rehearsing as rehearsing

if TYPE_CHECKING:
    from sudare.collector._service import Service

Handler = Callable[["Service", Request], Awaitable[Response]]
RawHandler = Callable[["Service", Scope, Receive, Send], Awaitable[None]]
_SHARED_FILES = ("/client.js", "/openapi.json")


class Content(NamedTuple):
    """A body: a type of `sudare.collector._messages`, or a schema."""

    media: str
    shape: Any
    """None for no body."""


class Query(NamedTuple):
    """A parameter after the question mark."""

    name: str
    about: str
    schema: Mapping[str, Any]


class Endpoint(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    summary: str
    status: int
    answer: Content | None
    """None where the answer has no body."""
    problems: tuple[str, ...] = ()
    """Codes of `sudare.collector._messages.PROBLEMS` it may answer with, beside those all share."""
    handle: Handler | None = None
    raw: RawHandler | None = None
    about: str = ""
    takes: tuple[Content, ...] = ()
    body_required: bool = True
    query: tuple[Query, ...] = ()
    operator: bool = False
    """Needs the operator's token, and is not for other origins' pages."""
    own_pages: bool = False
    """Not for other origins' pages."""
    reading: bool = False
    """Where the dashboard is private, needs a viewer's or the operator's token."""
    more: tuple[tuple[int, Content | None], ...] = ()
    """Further answers."""

    @property
    def rehearsal(self) -> bool:
        """Whether it is of the rehearsal, of which nothing is counted."""
        return self.path.startswith(f"{rehearsing.PATH}/")

    @property
    def shared(self) -> bool:
        """Whether pages of other origins may use it."""
        return not (self.operator or self.own_pages) and (
            self.path.startswith("/v1/") or self.path in _SHARED_FILES
        )
