"""A real PostgreSQL server on a free port of this machine, made and thrown away by the tests.

It runs as the user postgres when the tests run as root, which PostgreSQL refuses to be, and as
ourselves otherwise. Each worker of pytest-xdist has its own; nothing is shared, nothing is left.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import debian

_PACKAGE = "postgresql"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "40",
    "shared_buffers": "8MB",
}


class Server:
    """A running server; `schema` makes a place on it."""

    def __init__(self, folder: Path) -> None:
        self._data, self._log, self._port = folder / "data", folder / "log", _free_port()
        self.address = f"postgresql://sudare:unspoken@127.0.0.1:{self._port}"

    def start(self) -> None:
        options = " ".join(f"-c {name}='{value}'" for name, value in _SETTINGS.items())
        start = ["-D", str(self._data), "-l", str(self._log), "-o", f"-p {self._port} {options}"]
        _run("pg_ctl", *start, "-w", "-t", "60", "start")

    def stop(self) -> None:
        """At once, as if the power were cut."""
        _run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def restart(self) -> None:
        self.stop()
        self.start()


@contextmanager
def running() -> Iterator[Server]:
    """A server of one's own, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="sudare-postgres-"))
    try:
        if os.geteuid() == 0:
            _binary("initdb")  # the package brings the user, too
            account = pwd.getpwnam("postgres")
            os.chown(folder, account.pw_uid, account.pw_gid)
        data = folder / "data"
        _run("initdb", "--auth=trust", "--username=sudare", "--no-sync", "-D", str(data))
        server = Server(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def schema(address: str, name: str) -> str:
    """A new, empty schema on the server, which is much faster made than a database; its address."""
    import psycopg

    with psycopg.connect(f"{address}/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"'.encode())
    return f"{address}/postgres?options=-csearch_path%3D{name}"


def _binary(command: str) -> str:
    """Debian keeps the server's commands out of the way of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{command}"))
    if not found and shutil.which(command) is None:
        debian.require("pg_ctlcluster", _PACKAGE)  # psql may be there without the server
        found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{command}"))
    return str(found[-1]) if found else debian.require(command, _PACKAGE)


def _run(command: str, *arguments: str) -> None:
    become = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    prefix = become if os.geteuid() == 0 else []
    # The server keeps its standard streams open: a pipe would never see their end.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [*prefix, _binary(command), *arguments],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            timeout=120,
        )
        said.seek(0)
        assert done.returncode == 0, said.read().decode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
