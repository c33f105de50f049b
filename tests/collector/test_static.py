"""Files for browsers: only those, and only from here."""

import base64
import hashlib
import json
import re
import socket
from collections.abc import Iterator

import pytest

from sudare import __version__
from sudare.collector._openapi import description
from sudare.collector._static import FOLDER, client_module
from tests.collector.served import Served, serving
from tests.support import ROOT
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("pages")) as collector:
        yield collector


@pytest.mark.parametrize(
    ("path", "file", "kind"),
    [
        ("/", "dashboard.html", "text/html; charset=utf-8"),
        ("/try", "try.html", "text/html; charset=utf-8"),
        ("/pages/sudare.css", "sudare.css", "text/css; charset=utf-8"),
        ("/pages/icon.svg", "icon.svg", "image/svg+xml"),
    ],
)
def test_pages(served: Served, path: str, file: str, kind: str) -> None:
    answer = served.http.get(served.root + path)
    assert answer.status_code == 200
    assert answer.content == (FOLDER / file).read_bytes()
    assert answer.headers["content-type"] == kind
    tag = {"if-none-match": answer.headers["etag"]}
    again = served.http.get(served.root + path, headers=tag)
    assert (again.status_code, again.content) == (304, b"")


def test_what_pages_load_is_there(served: Served) -> None:
    """Everything that a page names is served, from here, with a type browsers accept."""
    for page in ("/", "/try"):
        text = served.http.get(served.root + page).text
        named = re.findall(r'(?:src|href)="([^"#]+)"', text)
        assert named
        for name in named:
            assert not re.match(r"(https?:)?//", name)
            assert served.http.get(f"{served.root}/{name.lstrip('./')}").status_code == 200, name


@pytest.mark.parametrize(
    "path",
    [
        b"/pages/../app.py", b"/pages/..%2fapp.py", b"/pages/%2e%2e/app.py", b"/pages/....//app.py",
        b"/pages/%2e%2e%2fapp.py", b"/pages/..%5capp.py", b"/pages/%252e%252e%252fapp.py",
        b"/pages/", b"/pages", b"/pages/.", b"/pages/..", b"/pages//etc/passwd",
        b"/pages/sudare.css%00.js", b"/pages/sudare.css/", b"/pages/.writable", b"/pages/x.py",
        b"/pages/SUDARE.CSS", b"/pages/nothing.css", b"/client.js/../app.py", b"/try/",
        b"/../../../../etc/passwd", b"/pages/\xc0\xae\xc0\xae/app.py", b"/pages/a:b.css",
    ],
)  # fmt: skip
def test_nothing_else_is_served(served: Served, path: bytes) -> None:
    """Sent as it stands, as a client of one's own would."""
    with socket.create_connection((served.host, served.port), timeout=PATIENCE) as wire:
        wire.sendall(b"GET " + path + b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        answer = b""
        while part := wire.recv(65536):
            answer += part
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))
    assert b"import" not in answer
    assert b"root:" not in answer


def test_the_description(served: Served) -> None:
    answer = served.http.get(f"{served.root}/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == json.loads(json.dumps(description()))


def test_the_client_loads_nothing_else(served: Served) -> None:
    """A module's own imports would need headers of their own, and a hash of their own."""
    answer = served.http.get(f"{served.root}/client.js", headers={"origin": "https://a.example"})
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.content == client_module()
    assert not re.search(r"^\s*import\b|\bimport\(", answer.text, re.MULTILINE)
    again = served.http.get(
        f"{served.root}/client.js", headers={"if-none-match": answer.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")


def test_the_package_for_npm() -> None:
    folder = ROOT / "deploy" / "npm"
    assert (folder / "client.js").read_bytes() == client_module(), "python -m tools.client"
    package = json.loads((folder / "package.json").read_text())
    assert package["version"] == __version__
    assert {package["exports"]["."], *package["files"]} == {"./client.js", "client.js"}
    hash_ = base64.b64encode(hashlib.sha384(client_module()).digest()).decode()
    assert f"sha384-{hash_}" in (folder / "README.md").read_text()
