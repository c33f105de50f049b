"""Whatever bytes come in, at whatever route: never a fault of the collector's own.

The application is asked in this process, without sockets, so that a million requests take minutes.
"""

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.types import Message

from sudare.collector._app import App
from sudare.collector._opening import open_collector
from sudare.collector._routes import ENDPOINTS
from sudare.collector._service import Service
from sudare.collector._settings import Secrets, Settings
from tests.collector.served import TOKEN, survey_of
from tests.support.soak import times

REQUESTS = times(3000, 1_000_000)
SEED = 20
PLACES = [(each.method, each.path) for each in ENDPOINTS]
PIECES = [
    b"", b"{}", b'{"\x82":1}', b'{"count":1}', b'{"count":"\xff"}', b'{"open":true}', b"[]",
    b"\xff",
    b'{"open":true,"\xc3\x28":0}', b'{"serial":1,"slot":0,"bit":1,"mark":"\xed\xa0\x80"}',
    b'{"serial":1,"slot":0,"bit":1,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}', b"\xef\xbb\xbf{}",
    b'{"count":1e999}', b'"\\ud800"', b"[" * 300, bytes(29), b"\x82" * 29, b"\x00", b'{"count":-1}',
    b'{"serial":18446744073709551616,"slot":0,"bit":1,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}',
    b'{"serial":0,"slot":4294967296,"bit":1,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}',
]  # fmt: skip
VALUES = [
    b"application/json", b"application/octet-stream", b"application/json; charset=\xff", b"\x82",
    b"Bearer \xff\xfe", b"Bearer " + TOKEN.encode(), b"Bearer", b"1.0", b"\xff.0", b"99999999.9",
    b'"0-0"', b"10", b"-1", b"99999999999999999999999", b"\xb2", b"", b"1.2.3.4, \xff", b"[::",
    b"gzip",
]  # fmt: skip
NAMES = [
    b"content-type", b"content-type", b"content-length", b"authorization", b"last-event-id",
    b"if-none-match", b"x-forwarded-for", b"accept-encoding", b"origin", b"\xff", b"range",
]  # fmt: skip
QUERIES = [
    b"", b"since=0", b"since=\xff", b"since=%ff", b"since=%C2%B2", b"\x82=%82", b"since=1&since=2",
    b"since=%00", b"%", b"since=999999999", b"since=\xb2",
]  # fmt: skip


def made_up(rng: random.Random, survey: str) -> tuple[dict[str, Any], bytes]:
    """A request that a hostile client might send."""
    method, path = rng.choice(PLACES)
    if rng.random() < 0.1:
        method = rng.choice(["HEAD", "OPTIONS", "DELETE", "\xff"])
    survey = survey if rng.random() < 0.9 else rng.choice(["\xff\xfe", "\udcff", "0" * 16, "%ff"])
    path = path.replace("{id}", survey)
    path = path.replace("{file}", rng.choice(["sudare.css", "\xff", "..", "\x00", "a" * 999]))
    if rng.random() < 0.03:
        path += rng.choice(["/", "\xff", "\udc80", "%00"])
    body = rng.choice(PIECES)
    if body and rng.random() < 0.3:
        where, what = rng.randrange(len(body)), rng.randrange(256)
        body = body[:where] + bytes([what]) + body[where + 1 :]
    headers = [(rng.choice(NAMES), rng.choice(VALUES)) for _ in range(rng.randrange(4))]
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode("utf-8", "replace"),
        "query_string": rng.choice(QUERIES), "headers": headers, "root_path": "", "scheme": "http",
        "http_version": "1.1", "server": ("127.0.0.1", 80),
        "client": (rng.choice(["127.0.0.1", "::1", "not an address", "10.0.0.7"]), 9),
    }  # fmt: skip
    return scope, body


async def answered(app: App, scope: dict[str, Any], body: bytes) -> list[Message]:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "survey.toml").write_text(survey_of().to_toml())
    chosen = {
        "survey": str(tmp_path / "survey.toml"),
        "store": str(tmp_path / "c.db"),
        "proxies": ["127.0.0.1"],
        "tickets_per_minute": 0.0,
        "tickets_per_second_overall": 0.0,
    }
    return msgspec.convert(chosen, Settings)


async def attack(settings: Settings, requests: list[tuple[dict[str, Any], bytes]]) -> set[int]:
    opened = open_collector(settings, Secrets(token=TOKEN))
    service = Service(settings, opened.survey, opened.schedule, opened.collector)
    statuses = set()
    try:
        app = App(service)
        for scope, body in requests:
            sent = await answered(app, scope, body)
            status = sent[0]["status"]
            assert status < 500, (scope, body)
            statuses.add(status)
        assert service.metrics.faults == 0
    finally:
        await service.stop()
        opened.collector.close()
    return statuses


@pytest.mark.parametrize(("method", "place"), [("POST", "tickets"), ("PUT", "enrolment")])
def test_a_key_that_is_not_text(settings: Settings, method: str, place: str) -> None:
    name = survey_id_of(settings)
    scope, _ = made_up(random.Random(SEED), name)
    scope |= {"method": method, "path": f"/v1/surveys/{name}/{place}", "query_string": b""}
    scope["headers"] = [
        (b"content-type", b"application/json"),
        (b"authorization", b"Bearer " + TOKEN.encode()),
    ]
    assert asyncio.run(attack(settings, [(scope, b'{"\x82":1}')])) == {400}


def survey_id_of(settings: Settings) -> str:
    from sudare.counting import read_survey
    from sudare.counting.wire import survey_id

    return survey_id(read_survey(settings.survey))


@pytest.mark.soak
def test_whatever_is_sent(settings: Settings) -> None:
    rng, name = random.Random(SEED), survey_id_of(settings)
    for begin in range(0, REQUESTS, 10_000):
        some = min(10_000, REQUESTS - begin)
        statuses = asyncio.run(attack(settings, [made_up(rng, name) for _ in range(some)]))
        assert {200, 204, 400, 404} <= statuses
