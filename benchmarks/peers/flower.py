"""Flower in an environment of its own, and its processes on this machine's loopback.

Flower 1.41 wants older versions of typer, rich and packaging than the rest of the project, so it is
installed into `.venv-peers/flower`, made on first use and kept: its own packages come first there,
and everything else, sudare included, is that of the environment the tests run in. So both sides of
a comparison compute with the same libraries.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.peers import ENVIRONMENTS, Unavailable
from sudare.federation.flower import QUIET

REQUIREMENT = "flwr[simulation]>=1.41,<1.42"
_PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
READY = "Starting Flower SuperExec"
"""What a SuperNode says last before it can be asked."""
_LIMIT_SECONDS = 600
_PATIENCE = "import flwr.common.constant as flower; flower.HEARTBEAT_DEFAULT_INTERVAL = 180\n"
"""Flower gives up a process that has not reported half a minute after its start, and importing all
that it needs takes longer on a machine with much to do."""
_ATTEMPTS = 3
_RAY_IS_LATE = "timed out during startup"
"""Ray gives itself half a minute to start, which is not enough on a machine with much to do."""


@cache
def commands() -> Path:
    """The folder of Flower's commands; raises `Unavailable` where they cannot be installed."""
    folder = ENVIRONMENTS / "flower"
    below = sysconfig.get_path("purelib")
    done, wanted = folder / "made.txt", f"{REQUIREMENT}\n{below}\n{sys.version}\n{_PATIENCE}"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / "flower.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be making it
        if not done.exists() or done.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, below)
            done.write_text(wanted)
    return folder / "bin"


def _make(folder: Path, below: str) -> None:
    python = folder / "bin" / "python"
    try:
        _run(sys.executable, "-m", "venv", folder)
        (packages,) = folder.glob("lib/python3*/site-packages")
        (packages / "below.pth").write_text(f"import site; site.addsitedir({below!r})\n")
        _run(python, *_PIP, REQUIREMENT)
        (packages / "patience.pth").write_text(_PATIENCE)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise Unavailable(f"{REQUIREMENT} could not be installed") from None


def _run(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=_LIMIT_SECONDS)


class Engine:
    """Flower's processes in one folder; `stop` ends all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        # Ray's sockets have room for a short path only.
        self._scratch = tempfile.mkdtemp(prefix="ray")
        self._running: list[subprocess.Popen[bytes]] = []
        self._environment = (
            dict(os.environ)
            | QUIET
            | {
                "PATH": f"{commands()}{os.pathsep}{os.environ['PATH']}",
                "FLWR_HOME": str(folder / "flwr"),
                "RAY_TMPDIR": self._scratch,
                "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
                "NO_COLOR": "1",
                "COLUMNS": "200",
            }
        )

    def start(self, name: str, *words: str, **environment: str) -> "subprocess.Popen[bytes]":
        """A process whose words go to NAME.out."""
        with (self.folder / f"{name}.out").open("ab") as said:
            process = subprocess.Popen(
                [commands() / words[0], *words[1:]],
                cwd=self.folder,
                env=self._environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        self._running.append(process)
        return process

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text(errors="replace")

    def flwr(self, *calls: list[str], seconds: float = 300) -> str:
        """Calls of `flwr`, in one process as importing it takes seconds; what they said."""
        return self.later(*calls, seconds=seconds)()

    def later(self, *calls: list[str], seconds: float = 300) -> Callable[[], str]:
        """The same, begun now; call what is returned to wait for the end."""
        source = (
            "import json, sys\nfrom flwr.cli.app import app\n"
            "for words in json.loads(sys.argv[1]): app(words, standalone_mode=False)\n"
        )
        name = f"flwr-{len(self._running)}"
        process = self.start(name, "python", "-c", source, json.dumps(calls))

        def wait() -> str:
            code = process.wait(timeout=seconds)
            assert code == 0, self.said(name)
            return self.said(name)

        return wait

    def connect(self, **settings: Any) -> None:
        """Tell `flwr` where the SuperLink is, under the name "here"."""
        lines = ["[superlink.here]", f'address = "127.0.0.1:{self.port}"']
        lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        (self.folder / "flwr").mkdir()
        (self.folder / "flwr" / "config.toml").write_text("\n".join(lines) + "\n")

    def wait_for(self, what: Callable[[], object], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, "\n".join(
                f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}"
                for path in self.folder.glob("*.out")
            )
            time.sleep(0.1)

    def simulate(self, nodes: int, settings: str, **environment: str) -> str:
        """Run the folder's app with simulated nodes, two at a time; what the run said."""
        self.connect(insecure=True)
        words = ["--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(self.port)]
        self.start("superlink", "flower-superlink", *words, **environment)
        self.wait_for(lambda: answers(self.port))
        size = f"num-supernodes={nodes} client-resources-num-cpus=1 init-args-num-cpus=2"
        run = ["run", "app", "here", "--stream", "--run-config", settings]
        said = ""
        for _ in range(_ATTEMPTS):
            said = self.flwr([*run, "--federation-config", size], seconds=_LIMIT_SECONDS)
            if _RAY_IS_LATE not in said:
                break
        return said

    def deploy(self, nodes: Sequence[Mapping[str, str]], **environment: str) -> None:
        """A SuperLink and a SuperNode for each of the environments, without TLS."""
        self.connect(insecure=True)
        here = ["--insecure", "--host", "127.0.0.1"]
        self.start("superlink", "flower-superlink", *here, "--port", str(self.port), **environment)
        self.wait_for(lambda: answers(self.port))
        for k, own in enumerate(nodes):
            words = [*here, "--port", str(free_port()), "--superlink", f"127.0.0.1:{self.port}"]
            number = f"partition-id={k} num-partitions={len(nodes)}"
            words += ["--node-config", number]
            self.start(f"node{k}", "flower-supernode", *words, **environment, **own)
        names = [f"node{k}" for k in range(len(nodes))]
        self.wait_for(lambda: all(READY in self.said(name) for name in names), _LIMIT_SECONDS)

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """The process and all that it has started, at once."""
        family = [process.pid, *_descendants(process.pid)]
        for member in family:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in reversed(self._running):
            if process.poll() is None:
                self.kill(process)
        for left in self._orphans():
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _orphans(self) -> list[int]:
        """Processes of this engine whose parents went first, known by their environment."""
        mark = f"FLWR_HOME={self.folder / 'flwr'}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found


@contextmanager
def running(folder: Path) -> Iterator[Engine]:
    made = Engine(folder)
    try:
        yield made
    finally:
        made.stop()


def _descendants(ancestor: int) -> list[int]:
    """Processes below one; some are in sessions of their own."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [ancestor]
    for known in found:  # grows as it is read
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def outcome(said: str) -> dict[str, Any]:
    """The last line that a server's run wrote for scripts."""
    line = next((text for text in said.splitlines() if "outcome {" in text), None)
    assert line is not None, said
    found: dict[str, Any] = json.loads(line[line.index("{") :])
    return found
