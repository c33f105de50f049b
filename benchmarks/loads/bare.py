"""python -m benchmarks.loads.bare PORT: the least a server can do, on the collector's own server.

It reads the body and answers 204.
"""

import asyncio
import sys
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server

_START = {"type": "http.response.start", "status": 204, "headers": []}
_BODY = {"type": "http.response.body", "body": b""}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Bare ASGI."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send(_START)
    await send(_BODY)


if __name__ == "__main__":
    asyncio.run(
        Server(
            app,
            port=int(sys.argv[1]),
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            websockets=False,
        ).serve()
    )
