"""The collector as a process: starting, stopping, being killed, and what it leaves behind."""

import asyncio
import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from sudare.collector import _server as server
from sudare.collector import monitoring
from sudare.collector._opening import open_collector
from sudare.collector._server import addresses_of, listen
from sudare.collector._settings import Secrets, Settings
from sudare.counting import Survey
from sudare.counting.wire import survey_id
from sudare.foundations.checks import InvalidInput
from tests.collector.served import TOKEN, serving, survey_of
from tests.support.waiting import PATIENCE, eventually

KEY = "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s"


class Process:
    """`sudare collect` in a folder."""

    def __init__(self, folder: Path, survey: Survey, *words: str, **environment: str) -> None:
        (folder / "survey.toml").write_text(survey.to_toml())
        self.log = folder / "log.jsonl"
        known = {"SUDARE_OPERATOR_TOKEN": TOKEN, "SUDARE_COLLECTOR_KEY": KEY}
        command = [sys.executable, "-m", "sudare", "collect", "survey.toml", *words]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=os.environ | known | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.url = self._when_listening()
        self.api = f"{self.url}/v1/surveys/{survey_id(survey)}"

    def _when_listening(self) -> str:
        def url() -> str:
            assert self.process.poll() is None, self.log.read_text()
            return next((str(each["url"]) for each in self.lines() if "url" in each), "")

        return eventually(url)

    def lines(self) -> list[dict[str, Any]]:
        text = self.log.read_text()
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def end(self, which: signal.Signals) -> int:
        self.process.send_signal(which)
        code = self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def children(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(each) for each in path.read_text().split()]


@contextmanager
def started(folder: Path, survey: Survey, *words: str, **environment: str) -> Iterator[Process]:
    process = Process(folder, survey, *words, **environment)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.end(signal.SIGKILL)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def all_gone(processes: list[int]) -> bool:
    return eventually(lambda: all(map(gone, processes)))


def half_sent(address: tuple[str, int], path: str, text: bytes) -> socket.socket:
    """A connection with half a report, which the collector has begun to read."""
    wire = socket.create_connection(address, timeout=PATIENCE)
    head = f"POST {path}/reports HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    wire.sendall(head.encode() + text[: len(text) // 2])
    assert wire.recv(65536).startswith(b"HTTP/1.1 100")
    return wire


def drain(wire: socket.socket) -> None:
    while wire.recv(65536):
        pass


def free(url: str) -> bool:
    host, _, port = url.removeprefix("http://").rpartition(":")
    with suppress(OSError), socket.create_server((host, int(port))):
        return True
    return False


def test_a_life(tmp_path: Path) -> None:
    """Started, used, killed, started again in the same place, stopped."""
    survey = survey_of(rounds=1)
    with started(tmp_path, survey, "--port", "0") as first:
        port = first.url.rpartition(":")[2]
        made = httpx.post(
            f"{first.api}/tickets",
            json={"count": 3},
            headers={"authorization": f"Bearer {TOKEN}", "x-forwarded-for": "203.0.113.77"},
        ).json()["tickets"]
        reports = [{"serial": t["serial"], "slot": 0, "bit": 1, "mark": t["mark"]} for t in made]
        assert httpx.post(f"{first.api}/reports", json=reports[0]).status_code == 204
        # One process, with nothing secret on its command line.
        assert first.children() == []
        shown = Path(f"/proc/{first.process.pid}/cmdline").read_text()
        assert TOKEN not in shown
        assert KEY not in shown
        first.end(signal.SIGKILL)
        assert free(first.url)
    said = first.log.read_text()
    never = ("--stop-seconds", f"{10 * PATIENCE:g}")  # nothing is in hand: no need to wait so long
    with started(tmp_path, survey, "--port", port, "--health-port", "0", *never) as second:
        assert second.url == first.url
        for each in reports[:2]:
            assert httpx.post(f"{second.api}/reports", json=each).status_code == 204
        assert httpx.get(f"{second.api}/activity").json()["reporters"]["0"] == 2
        assert second.end(signal.SIGTERM) == 0
        assert free(second.url)
    said += second.log.read_text()
    assert [line["event"] for line in second.lines()] == ["listening", "stopping", "stopped"]
    for secret in (TOKEN, KEY, "203.0.113.77", made[0]["mark"], str(made[0]["serial"]) + ","):
        assert secret not in said
    for line in map(json.loads, said.splitlines()):
        for address in (line.pop("url", ""), line.pop("health_url", "")):
            line["message"] = line["message"].replace(address, "")
        assert "127.0.0.1" not in json.dumps(line)


def test_what_is_in_hand_is_answered_before_the_end(tmp_path: Path) -> None:
    survey, said = survey_of(rounds=1), io.StringIO()
    monitoring.configure("json", stream=said)
    patient = {"stop_seconds": 10 * PATIENCE, "body_seconds": 10 * PATIENCE}
    with serving(tmp_path, survey, **patient) as served:
        (report,) = served.reports(1)
        text = json.dumps(report).encode()
        wire = half_sent((served.host, served.port), f"/v1/surveys/{served.id}", text)

        def send_the_rest() -> None:
            eventually(lambda: '"stopping"' in said.getvalue())
            wire.sendall(text[len(text) // 2 :])

        rest = threading.Thread(target=send_the_rest)
        rest.start()
    rest.join()
    assert wire.recv(65536).startswith(b"HTTP/1.1 204")
    wire.close()
    with serving(tmp_path, survey) as served:
        assert served.heard() == 1


def test_the_end_does_not_wait_for_ever(tmp_path: Path) -> None:
    words = ("--port", "0", "--stop-seconds", "0.5", "--body-seconds", f"{10 * PATIENCE:g}")
    with started(tmp_path, survey_of(rounds=1), *words) as process:
        host, _, port = process.url.removeprefix("http://").rpartition(":")
        wire = half_sent((host, int(port)), process.api.removeprefix(process.url), bytes(100))
        assert process.end(signal.SIGINT) == 0, process.log.read_text()
        wire.close()
        assert process.lines()[-1]["event"] == "stopped"


def test_a_taken_port_is_said_in_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"Cannot listen on 127.0.0.1:{port}.*--port"):
            listen(Settings(survey="s", port=port))
        with pytest.raises(InvalidInput, match="--health-port"):
            listen(Settings(survey="s", port=0, health_port=port))
    with pytest.raises(InvalidInput, match="There is no port 65536"):
        listen(Settings(survey="s", port=65535))
    with pytest.raises(InvalidInput, match=r"Cannot listen on nowhere\.invalid"):
        listen(Settings(survey="s", host="nowhere.invalid"))


def test_two_collectors_do_not_share_a_port_by_accident() -> None:
    first = listen(Settings(survey="s", port=0))
    port = first.main.getsockname()[1]
    with pytest.raises(InvalidInput, match="Cannot listen"):
        listen(Settings(survey="s", port=port, health_port=0))
    for each in first:
        each.close()


def test_the_servers_words_go_where_ours_do(tmp_path: Path) -> None:
    said = io.StringIO()
    monitoring.configure("json", stream=said)
    with serving(tmp_path):
        logging.getLogger("_granian").error("Something of the server's own")
    events = [json.loads(line)["event"] for line in said.getvalue().splitlines()]
    assert events == ["server", "stopping", "stopped"]


def test_a_server_that_takes_no_socket_binds_the_same_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How granian is handed one is not public, and may change."""

    def unknown(*_: object) -> None:
        raise TypeError

    monkeypatch.setattr(server, "SocketHolder", unknown)
    with serving(tmp_path) as served:
        for url in (f"{served.root}/v1/surveys", f"{served.health_url}/health"):
            assert eventually(partial(status, served.http, url)) == 200


def status(http: httpx.Client, url: str) -> int:
    """0 where nobody listens."""
    try:
        return http.get(url).status_code
    except httpx.ConnectError:
        return 0


def test_addresses() -> None:
    sockets = listen(Settings(survey="s", port=0, host="0.0.0.0", health_host="::1"))
    told = addresses_of(sockets)
    assert told.url == f"http://127.0.0.1:{sockets.main.getsockname()[1]}"
    assert told.health_url == f"http://[::1]:{sockets.health.getsockname()[1]}"
    for each in sockets:
        each.close()


def test_a_store_in_use_is_said_in_words(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        settings = Settings(
            survey=str(tmp_path / "survey.toml"), store=str(tmp_path / "collector.db")
        )
        with pytest.raises(InvalidInput, match=str(os.getpid())):
            open_collector(settings, Secrets())
        assert served.http.get(served.url).status_code == 200


def test_the_second_listener_does_not_disturb_the_first(tmp_path: Path) -> None:
    with serving(tmp_path, header_seconds=10 * PATIENCE) as served:
        host, _, port = served.health_url.removeprefix("http://").rpartition(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(200)]
        assert served.send(served.reports(1)[0]).status_code == 204
        for each in idle:
            each.close()


def test_more_connections_than_allowed_wait(tmp_path: Path) -> None:
    """Idle connections are closed after a while, and those that wait get their turn."""
    with serving(tmp_path, max_connections=4, header_seconds=0.5) as served:
        (report,) = served.reports(1)
        idle = [socket.create_connection((served.host, served.port)) for _ in range(8)]
        with httpx.Client(timeout=PATIENCE) as client:
            assert client.post(f"{served.url}/reports", json=report).status_code == 204
        for each in idle:
            each.close()


def connections() -> set[tuple[str, str]]:
    """Both ports of every connection that the kernel keeps on this machine."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {(local[-5:], remote[-5:]) for _, local, remote, *_ in map(str.split, lines)}


def test_a_client_that_does_not_take_its_answer_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_TAKE_SECONDS", 1)
    body = bytes(29 * 100_000)  # each of them refused, so that the answer is long
    with serving(tmp_path) as served, socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.connect((served.host, served.port))
        head = f"POST /v1/surveys/{served.id}/reports HTTP/1.1\r\nhost: a\r\ncontent-type: "
        head += f"application/octet-stream\r\ncontent-length: {len(body)}\r\n\r\n"
        wire.sendall(head.encode() + body)
        wire.settimeout(PATIENCE)
        wire.recv(1, socket.MSG_PEEK)  # the answer has begun
        ports = f":{served.port:04X}", f":{wire.getsockname()[1]:04X}"
        eventually(lambda: ports not in connections())
        with pytest.raises(ConnectionResetError):
            drain(wire)


def test_several_workers_over_postgresql(tmp_path: Path, database: str) -> None:
    survey = survey_of(rounds=1)
    words = ("--port", "0", "--workers", "2")
    with started(tmp_path, survey, *words, SUDARE_STORE=database) as process:
        assert "unspoken" not in process.log.read_text()
        workers = process.children()
        operator = {"authorization": f"Bearer {TOKEN}"}

        async def crowd() -> list[int]:
            made: list[dict[str, Any]] = []
            async with httpx.AsyncClient(timeout=PATIENCE) as client:
                for _ in range(2):
                    answer = await client.post(
                        f"{process.api}/tickets", json={"count": 20}, headers=operator
                    )
                    made += answer.json()["tickets"]
            sent = []
            async with httpx.AsyncClient(timeout=PATIENCE) as client:
                for ticket in made * 2:
                    body = {"serial": ticket["serial"], "slot": 0, "bit": 1, "mark": ticket["mark"]}
                    sent.append(client.post(f"{process.api}/reports", json=body))
                answers = await asyncio.gather(*sent)
            assert len({t["serial"] for t in made}) == 40
            return [answer.status_code for answer in answers]

        assert asyncio.run(crowd()) == [204] * 80
        address = f"{process.api}/activity"
        eventually(lambda: httpx.get(address).json()["reporters"]["0"] == 40)
        # Each worker has its own figures, one port after the other.
        health = process.lines()[0]["health_url"]
        assert httpx.get(f"{health}/health").status_code == 200
        # Killed, the first process takes its workers with it.
        process.end(signal.SIGKILL)
        assert all_gone(workers)
        assert free(process.url)
    with started(tmp_path, survey, *words, SUDARE_STORE=database) as process:
        workers = process.children()
        assert process.end(signal.SIGTERM) == 0
        assert all_gone(workers)


def test_no_worker_goes_on_without_the_others(tmp_path: Path, database: str) -> None:
    words = ("--port", "0", "--workers", "2")
    with started(tmp_path, survey_of(rounds=1), *words, SUDARE_STORE=database) as process:
        workers = process.children()
        os.kill(workers[-1], signal.SIGKILL)
        assert process.process.wait(PATIENCE) == 2
        assert "A worker ended by itself" in process.log.read_text()
        assert all_gone(workers)
        assert process.process.stdout is not None
        process.process.stdout.close()
