"""Running a collector: sockets, processes, and an orderly end.

One worker is one process, with granian's server embedded in it: killed by whatever means, it leaves
nothing behind that holds the port or the store. Several workers (PostgreSQL only) are processes
with sockets of their own on the same port, which end with the process that started them.

What holds against slow and half-open connections:

    heads       granian closes a connection whose request's head is not there in time, and one that
                is idle for as long
    bodies      read with one deadline for the whole (`sudare.collector._limits`)
    answers     a client that does not take its answer is cut off by the kernel (TCP_USER_TIMEOUT),
                as granian has no deadline for writing; streams have a bounded queue each
    connections at most so many are accepted, the others wait in the listening queue
"""

import asyncio
import ctypes
import gc
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.net import SocketHolder  # type: ignore[attr-defined]
from granian.server.embed import Server
from starlette.types import ASGIApp

from sudare.collector import monitoring
from sudare.collector._app import App
from sudare.collector._opening import Opened, open_collector
from sudare.collector._service import Service
from sudare.collector._settings import Secrets, Settings
from sudare.collector.monitoring import HealthApp
from sudare.foundations import checks

_BACKLOG = 1024
_BUFFER = 128 * 1024
_HEALTH_CONNECTIONS = 64
_LAST_PORT = 65535
_TAKE_SECONDS = 30
"""For a client to take what is sent to it."""
_SWITCH_SECONDS = 0.001
"""How long one thread may keep the others waiting: the writer should not wait for the loop."""


class Sockets(NamedTuple):
    """Where one worker listens."""

    main: socket.socket
    health: socket.socket


class Addresses(NamedTuple):
    """Where a collector can be found."""

    url: str
    health_url: str


def run(settings: Settings, secrets: Secrets, ready: Callable[[Opened, Addresses], None]) -> None:
    """Collect until SIGTERM or SIGINT.

    `ready` is called once requests are taken. A token is made only where standard output is a
    terminal, so that none is written to a log.
    """
    if settings.workers > 1:
        _run_workers(settings, secrets, ready)
        return
    sockets = listen(settings)
    try:
        opened = _open(settings, secrets)
    except BaseException:
        for each in sockets:
            each.close()
        raise
    addresses = addresses_of(sockets)
    _run(settings, opened, sockets, lambda: ready(opened, addresses))


def _open(settings: Settings, secrets: Secrets, make_token: bool | None = None) -> Opened:
    if make_token is None:
        make_token = sys.stdout.isatty()
    patience = settings.store_seconds if settings.shares_store else 0.0
    return open_collector(settings, secrets, make_token=make_token, patience=patience)


def addresses_of(sockets: Sockets) -> Addresses:
    """The sockets' addresses, for people."""
    return Addresses(_url(sockets.main), _url(sockets.health))


async def serve(
    settings: Settings,
    opened: Opened,
    sockets: Sockets,
    stop: asyncio.Event,
    ready: Callable[[], None],
) -> bool:
    """Serve until `stop`, then close the store; whether everybody had their answer in time."""
    service = Service(settings, opened.survey, opened.schedule, opened.collector)
    health = HealthApp(service.metrics, service.health)
    main = _Listener(App(service), sockets.main, settings, settings.max_connections)
    side = _Listener(health, sockets.health, settings, _HEALTH_CONNECTIONS)
    serving = [asyncio.create_task(each.serve()) for each in (main, side)]
    service.start()
    ready()
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([stopped, *serving], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    monitoring.say("stopping", "Stopping: answering open requests first")
    service.stream.close()
    main.end()
    _, late = await asyncio.wait(serving[:1], timeout=settings.stop_seconds)
    await service.stop()
    side.end()
    await asyncio.wait(serving[1:], timeout=1.0)
    await asyncio.to_thread(opened.collector.close)
    monitoring.say("stopped", "Stopped; everything that was acknowledged is on the disk")
    return not late


def _run(settings: Settings, opened: Opened, sockets: Sockets, ready: Callable[[], None]) -> None:
    """Serve in this process until it is told to stop."""

    async def until_told() -> bool:
        stop = asyncio.Event()
        for which in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(which, stop.set)
        return await serve(settings, opened, sockets, stop, ready)

    sys.setswitchinterval(_SWITCH_SECONDS)
    # What is here by now stays: no need to look through it again and again for garbage.
    gc.collect()
    gc.freeze()
    asyncio.run(until_told())
    # The store is closed. granian's threads may still be at work (a request that was not answered
    # in time, a last connection), and panic if they meet an interpreter that is being taken down.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


class _Listener(Server):
    """granian's embedded server on a socket of ours: that no other process can share by accident,
    on any free port if that is wanted, with the kernel's own time limits.

    granian has no public way to hand it a socket. Where a version of it has none at all, it binds
    the address again by itself, and only the kernel's time limits are lost.
    """

    def __init__(
        self, app: ASGIApp, listening: socket.socket, settings: Settings, connections: int
    ) -> None:
        self._listening = listening
        host, port = listening.getsockname()[:2]
        log = logging.getLogger("_granian")
        kept = log.handlers[:], log.propagate
        super().__init__(
            app,
            address=host,
            port=port,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            websockets=False,
            backlog=_BACKLOG,
            backpressure=connections,
            http1_settings=HTTP1Settings(
                header_read_timeout=max(1, round(settings.header_seconds * 1000)),
                max_buffer_size=_BUFFER,
            ),
            log_level=LogLevels.error,
            log_dictconfig={"handlers": {}, "loggers": {"_granian": {}}},
        )
        # It sets up logging for the whole process; what it has to say goes where we say.
        log.handlers[:], log.propagate = kept
        if not hasattr(Server, "_init_shared_socket"):
            self._listening.close()

    def end(self) -> None:
        """Take no more connections, and answer what has been asked."""
        self.stop()  # type: ignore[no-untyped-call]

    def _init_shared_socket(self) -> None:
        # Its types know neither that it can be made nor that there may be none.
        self._shd: Any
        if hasattr(self, "_shd"):
            with suppress(TypeError):
                made = SocketHolder(self._listening.fileno(), False, _BACKLOG)  # type: ignore[call-arg]
                self._listening.detach()
                self._shd = made
                return
        self._listening.close()
        super()._init_shared_socket()  # type: ignore[no-untyped-call]


def listen(settings: Settings, *, worker: int | None = None) -> Sockets:
    """Bind both sockets; with a worker's number, beside those of other workers."""
    main = _bind("port", settings.host, settings.port, shared=worker is not None)
    port: int = main.getsockname()[1]
    wanted = settings.health_port
    if wanted is None:
        wanted = port + 1 if settings.port else 0
    if wanted:
        wanted += worker or 0
    try:
        return Sockets(main, _bind("health-port", settings.health_host, wanted))
    except BaseException:
        main.close()
        raise


def _bind(name: str, host: str, port: int, *, shared: bool = False) -> socket.socket:
    if port > _LAST_PORT:  # the system would take it modulo 65536
        raise checks.InvalidInput(f"There is no port {port}: choose one with --{name}")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.create_server(address[:2], family=family, backlog=_BACKLOG, reuse_port=shared)
    except OSError as problem:
        raise checks.InvalidInput(
            f"Cannot listen on {host}:{port}: {problem.strerror}. Is something else running there? "
            f"Choose another with --{name}"
        ) from None
    made.setblocking(False)
    # Accepted connections inherit these.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _TAKE_SECONDS),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", _TAKE_SECONDS * 1000),
        ("TCP_NODELAY", 1),
    ):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


# Several workers


def _run_workers(
    settings: Settings, secrets: Secrets, ready: Callable[[Opened, Addresses], None]
) -> None:
    """Start the workers, and end with the first that ends."""
    # Checked once here, with a clear message, rather than by every worker.
    opened = _open(settings, secrets)
    opened.collector.close()
    _bind("port", settings.host, settings.port).close()
    first = listen(settings, worker=0)
    port = first.main.getsockname()[1]
    fixed = msgspec.structs.replace(settings, port=port)
    sockets = [first, *(listen(fixed, worker=n) for n in range(1, settings.workers))]
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_work, args=(fixed, secrets, each, os.getpid()), daemon=True)
        for each in sockets
    ]
    stopping = False

    def stop(*_: Any) -> None:
        nonlocal stopping
        stopping = True
        for worker in workers:
            if worker.pid is not None and worker.is_alive():
                worker.terminate()

    for worker in workers:
        worker.start()
    for which in (signal.SIGTERM, signal.SIGINT):
        signal.signal(which, stop)
    addresses = addresses_of(first)
    for each in sockets:
        for one in each:
            one.close()
    ready(opened, addresses)
    multiprocessing.connection.wait([worker.sentinel for worker in workers])
    unexpected = not stopping
    stop()
    for worker in workers:
        worker.join(settings.stop_seconds + 5)
        if worker.is_alive():
            worker.kill()
    if unexpected:
        raise checks.SudareError("A worker ended by itself, so all were stopped: see the log")


def _work(settings: Settings, secrets: Secrets, sockets: Sockets, parent: int) -> None:
    """One of several workers."""
    _end_with(parent)
    monitoring.configure(settings.log_format, settings.log_level)
    _run(settings, _open(settings, secrets, make_token=False), sockets, lambda: None)


def _end_with(parent: int) -> None:
    """Have the kernel end this process when its parent has ended, however that came about."""
    death_signal = 1  # PR_SET_PDEATHSIG
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(death_signal, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
