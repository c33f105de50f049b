"""The files for operators are tried with the programs they are for."""

import asyncio
import re
import socket
import ssl
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client import generate_latest

from sudare.collector._opening import open_collector
from sudare.collector._service import Service
from sudare.collector._settings import Secrets, read_settings
from tests.collector import crowd
from tests.collector.served import TOKEN, survey_of
from tests.support import ROOT, debian
from tests.support.waiting import PATIENCE, eventually

DEPLOY = ROOT / "deploy"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return not probe.connect_ex(("127.0.0.1", port))


@contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[tuple[str, Path]]:
    """Our server block, with paths and ports of this test; its address and certificate."""
    program = debian.require("nginx", "nginx-light")
    openssl = debian.require("openssl", "openssl")
    key, certificate = folder / "tls.key", folder / "tls.crt"
    words = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    words += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    port, _ = crowd.free_ports()
    block = (DEPLOY / "nginx.conf").read_text()
    for ours, theirs in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "server 127.0.0.1:8000": f"server 127.0.0.1:{upstream}",
        "/etc/ssl/count.example.org.crt": str(certificate),
        "/etc/ssl/count.example.org.key": str(key),
        "/var/log/nginx/error.log": str(folder / "error.log"),
    }.items():
        assert ours in block
        block = block.replace(ours, theirs)
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; daemon off; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {folder}/body; "
        f"proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; "
        f"uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n{block}\n}}\n"
    )
    run = [program, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    checked = subprocess.run([*run, "-t"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(run)
    try:
        eventually(lambda: listens(port))
        yield f"https://localhost:{port}", certificate
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_behind_the_proxy(tmp_path: Path) -> None:
    """TLS, a report, a large batch, and a live stream that is passed on at once."""
    (tmp_path / "proxy").mkdir()
    options = (*crowd.ANY_TIME, "--proxy", "127.0.0.1")
    survey = crowd.survey_of(40)
    with (
        crowd.running(tmp_path, survey, options=options) as collector,
        nginx(tmp_path / "proxy", collector.port) as (url, certificate),
    ):
        reports = collector.reports()
        trust = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=url, verify=trust, timeout=PATIENCE) as client:
            found = client.get("/v1/surveys")
            assert found.json()["surveys"][0]["name"] == "crowd"
            assert "max-age" in found.headers["strict-transport-security"]
            answer = client.post(
                f"{collector.api}/reports",
                content=crowd.pack(reports),
                headers={"Content-Type": "application/octet-stream"},
            )
            assert answer.json() == {"counted": 40, "repeated": 0, "refused": {}}
            with client.stream("GET", f"{collector.api}/stream") as stream:
                assert stream.status_code == 200
                first = next(stream.iter_lines())
            assert first


def test_the_unit_is_sound(tmp_path: Path) -> None:
    """As systemd reads it, with the program where it is here."""
    analyze = debian.require("systemd-analyze", "systemd")
    program = tmp_path / "sudare"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = (DEPLOY / "sudare-collector.service").read_text()
    assert "/opt/sudare/bin/sudare " in unit
    file = tmp_path / "sudare-collector.service"
    file.write_text(unit.replace("/opt/sudare/bin/sudare", str(program)))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(file)], capture_output=True, text=True
    )
    told = [line for line in done.stderr.splitlines() if "sudare-collector" in line]
    assert done.returncode == 0, done.stderr
    assert not told


def test_the_settings_are_read() -> None:
    settings = read_settings(DEPLOY / "collector.toml", {}, {})
    assert settings.store == "/var/lib/sudare/collector.db"
    assert settings.proxies == ("127.0.0.1",)
    assert tomllib.loads((DEPLOY / "collector.toml").read_text())["survey"] == "survey.toml"


def test_the_environment_names_what_is_read() -> None:
    from sudare.collector import _settings as settings

    named = set(re.findall(r"^#(SUDARE_\w+)=", (DEPLOY / "collector.env").read_text(), re.M))
    known = {settings.KEY_VARIABLE, settings.TOKEN_VARIABLE, settings.STORE_VARIABLE}
    assert named == known


def test_the_metrics_to_watch_exist(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "operate.md").read_text()
    named = set(re.findall(r"`(sudare_\w+)", page))
    assert len(named) > 3
    (tmp_path / "survey.toml").write_text(survey_of().to_toml())
    settings = read_settings(
        None, {"survey": str(tmp_path / "survey.toml"), "store": str(tmp_path / "c.db")}, {}
    )
    opened = open_collector(settings, Secrets(token=TOKEN))

    async def metrics() -> str:  # a service needs a loop
        service = Service(settings, opened.survey, opened.schedule, opened.collector)
        return generate_latest(service.metrics.registry).decode()

    exposed = asyncio.run(metrics())
    opened.collector.close()
    assert {name for name in named if not re.search(rf"^# TYPE {name} ", exposed, re.M)} == set()


@pytest.mark.parametrize("file", ["Containerfile", "sudare-collector.service"])
def test_commands_and_options_exist(file: str) -> None:
    """The words after `collect` are options that it has."""
    from typer.main import get_command

    from sudare.cli import app

    collect = get_command(app).commands["collect"]  # type: ignore[attr-defined]
    known = {option for each in collect.params for option in each.opts}
    used = set(re.findall(r"(?<=[ \"])--[a-z-]+", _after_collect(DEPLOY / file)))
    assert used
    assert used <= known


def _after_collect(path: Path) -> str:
    after = re.split(r'(?:sudare|"sudare",) "?collect', path.read_text())[-1]
    return after.split("[Install]")[0]
