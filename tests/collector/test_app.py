"""What every route has in common: refusals, methods, headers, other origins."""

import asyncio
import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from sudare.collector._messages import POLICY, PROBLEMS
from sudare.collector._routes import ENDPOINTS
from tests.collector.served import Served, serving
from tests.support.waiting import PATIENCE

ELSEWHERE = {"origin": "https://elsewhere.example"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("app")) as collector:
        yield collector


def address(served: Served, path: str) -> str:
    return served.root + path.replace("{id}", served.id).replace("{file}", "sudare.css")


def raw(served: Served, request: bytes) -> bytes:
    """What comes back for these bytes, until the connection is closed."""
    with socket.create_connection((served.host, served.port), timeout=PATIENCE) as wire:
        wire.sendall(request)
        answer = b""
        while part := wire.recv(65536):
            answer += part
        return answer


def refusal(answer: httpx.Response) -> str:
    told = answer.json()
    assert list(told) == ["error"]
    assert sorted(told["error"]) == ["code", "message"]
    code: str = told["error"]["code"]
    assert answer.status_code == PROBLEMS[code].status
    assert answer.headers["content-type"] == "application/json"
    return code


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1", "/v1/", "/v1/surveys/", "//", "/v1/surveys/x/y"]
)
def test_an_unknown_path(served: Served, path: str) -> None:
    assert refusal(served.http.get(served.root + path)) == "not_found"


@pytest.mark.parametrize("name", ["0" * 16, "x", "..", "%00", "0" * 5000])
def test_an_unknown_survey(served: Served, name: str) -> None:
    before = served.collector.status().refused.get("unknown_survey", 0)
    answers = [
        served.http.get(f"{served.root}/v1/surveys/{name}/estimates"),
        served.http.post(f"{served.root}/v1/surveys/{name}/reports", json={}),
        served.http.post(f"{served.root}/v1/surveys/{name}/tickets"),
    ]
    if name == "..":  # the client takes it for a step upwards
        assert {refusal(answer) for answer in answers} == {"not_found"}
        return
    assert {refusal(answer) for answer in answers} == {"unknown_survey"}
    assert served.collector.status().refused["unknown_survey"] == before + 3


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda e: f"{e.method} {e.path}")
def test_methods(served: Served, endpoint: object) -> None:
    path: str = endpoint.path  # type: ignore[attr-defined]
    here = {each.method for each in ENDPOINTS if each.path == path}
    allowed = here | {"OPTIONS"} | ({"HEAD"} if "GET" in here else set())
    answer = served.http.options(address(served, path))
    assert answer.status_code == 204
    assert set(answer.headers["allow"].split(", ")) == allowed
    for method in {"DELETE", "PATCH", "TRACE", "GET", "POST", "PUT", "NONSENSE"} - allowed:
        answer = served.http.request(method, address(served, path))
        assert refusal(answer) == "wrong_method"
        assert set(answer.headers["allow"].split(", ")) == allowed


def test_head_is_get_without_the_body(served: Served) -> None:
    for path in ("/v1/surveys", "/v1/surveys/{id}/estimates", "/", "/openapi.json"):
        got, headed = (served.http.request(m, address(served, path)) for m in ("GET", "HEAD"))
        assert headed.status_code == got.status_code == 200
        assert headed.content == b""
        if not path.endswith("estimates"):  # of which nobody knows the length before its end
            assert headed.headers["content-length"] == got.headers["content-length"]
        assert headed.headers["content-type"] == got.headers["content-type"]
    answer = served.http.head(f"{served.url}/stream")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_security_headers_are_everywhere(served: Served) -> None:
    answers = [
        served.http.get(served.root),
        served.http.get(f"{served.root}/v1/surveys"),
        served.http.get(f"{served.root}/nothing"),
        served.http.post(f"{served.url}/reports", json={}),
        served.http.get(f"{served.url}/operator"),
        served.http.options(f"{served.url}/reports"),
    ]
    counted = served.send(served.reports(1)[0])
    assert counted.status_code == 204
    batch = served.send_packed(bytes(29))
    assert batch.status_code == 200
    answers += [counted, batch]
    answers += [served.http.get(f"{served.health_url}{path}") for path in ("/health", "/metrics")]
    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in answer.headers
    for word in ("'unsafe-inline'", "'unsafe-eval'", "http:", "https:", "*"):
        assert word not in POLICY
    assert "frame-ancestors 'none'" in POLICY
    assert "default-src 'none'" in POLICY


def test_other_origins_may_read_join_and_report(served: Served) -> None:
    for path in ("/v1/surveys", "/v1/surveys/{id}", "/v1/surveys/{id}/estimates", "/client.js"):
        answer = served.http.get(address(served, path), headers=ELSEWHERE)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers
    for path in ("tickets", "reports"):
        asked = ELSEWHERE | {
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
        }
        answer = served.http.options(f"{served.url}/{path}", headers=asked)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert "content-type" in answer.headers["access-control-allow-headers"]
        assert "authorization" not in answer.headers["access-control-allow-headers"]
    joined = served.http.post(f"{served.url}/tickets", headers=ELSEWHERE)
    assert joined.headers["access-control-allow-origin"] == "*"
    counted = served.send(served.reports(1)[0], headers=ELSEWHERE)
    assert counted.headers["access-control-allow-origin"] == "*"
    # Whoever is refused may read why, and when to try again.
    refused = served.send({}, headers=ELSEWHERE)
    assert "retry-after" in refused.headers["access-control-expose-headers"]
    assert refused.headers["access-control-allow-origin"] == "*"


def test_other_origins_may_not_act_as_the_operator(served: Served) -> None:
    for method, path in (("GET", "operator"), ("PUT", "enrolment")):
        asked = ELSEWHERE | {
            "access-control-request-method": method,
            "access-control-request-headers": "authorization",
        }
        answers = [
            served.http.options(f"{served.url}/{path}", headers=asked),
            served.http.request(method, f"{served.url}/{path}", headers=ELSEWHERE),
            served.http.request(
                method, f"{served.url}/{path}", headers=ELSEWHERE | served.operator
            ),
        ]
        for answer in answers:
            assert not [name for name in answer.headers if name.startswith("access-control")]


def test_nothing_that_was_sent_is_sent_back(served: Served) -> None:
    word = "Wanderfalke"
    answers = [
        served.http.get(f"{served.root}/{word}"),
        served.http.get(f"{served.root}/v1/surveys/{word}"),
        served.http.get(f"{served.url}/estimates?since={word}"),
        served.http.post(f"{served.url}/reports", json={word: word}, headers={"x-thing": word}),
        served.http.post(f"{served.url}/tickets", content=word, headers={"content-type": word}),
        served.http.get(f"{served.url}/operator", headers={"authorization": f"Bearer {word}"}),
        served.http.request(word.upper(), served.url),
    ]
    for answer in answers:
        assert answer.status_code >= 400
        assert word.lower() not in (answer.text + str(answer.headers)).lower()


def test_headers_cannot_be_injected(served: Served) -> None:
    for line in (
        b"GET /v1/surveys/x%0d%0aset-cookie:%20a=b HTTP/1.1\r\nhost: a\r\n",
        b"GET /pages/x%0d%0aset-cookie:%20a=b.js HTTP/1.1\r\nhost: a\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nif-none-match: x\rset-cookie: a=b\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\norigin: x\n set-cookie: a=b\r\n",
    ):
        answer = raw(served, line + b"connection: close\r\n\r\n")
        assert b"set-cookie" not in answer.lower()
        assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 200"))


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nhost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: " + b"y" * 300_000 + b"\r\n\r\n",
    ],
    ids=["tls", "no path", "version", "negative", "two lengths", "http2", "long head"],
)
def test_what_is_no_request_is_refused(served: Served, request_: bytes) -> None:
    try:
        answer = raw(served, request_)
    except ConnectionResetError:
        answer = b""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert served.http.get(served.url).status_code == 200


def test_length_and_chunks_together_are_not_smuggled(served: Served) -> None:
    """Two ways to say where a request ends must not be read as two requests."""
    body = b"0\r\n\r\nGET /v1/surveys HTTP/1.1\r\nhost: a\r\n\r\n"
    head = f"POST /v1/surveys/{served.id}/tickets HTTP/1.1\r\nhost: a\r\ncontent-length: "
    head += f"{len(body)}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    answer = raw(served, head.encode() + body)
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert b'surveys":' not in answer


def test_an_unforeseen_fault_says_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("serial 4711 of somebody")

    faults = served.metric("sudare_faults_total")
    monkeypatch.setattr(served.collector, "status", fail)
    answer = served.http.get(served.url)
    monkeypatch.undo()
    assert refusal(answer) == "internal"
    assert "4711" not in answer.text
    assert served.metric("sudare_faults_total") >= faults + 1
    assert served.http.get(served.url).status_code == 200


def test_websockets_are_not_taken(served: Served) -> None:
    upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    answer = served.http.get(served.url, headers=upgrade | {"sec-websocket-key": "A" * 22 + "=="})
    assert answer.status_code in (200, 400)


def test_many_at_once(served: Served) -> None:
    """Answers belong to their requests, however many are under way."""
    reports = served.reports(60)
    wrong = [dict(each, mark="A" * 22) for each in served.reports(30)]

    async def all_at_once() -> list[int]:
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            mixed = [
                each
                for pair in zip(reports[::2], wrong, reports[1::2], strict=True)
                for each in pair
            ]
            sent = [client.post(f"{served.url}/reports", json=each) for each in mixed]
            return [answer.status_code for answer in await asyncio.gather(*sent)]

    before = served.heard()
    assert asyncio.run(all_at_once()) == [204, 403, 204] * 30
    assert served.heard() == before + 60


def test_answers_are_compact_json(served: Served) -> None:
    text = served.http.get(served.url).text
    assert text == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
