"""The hot route: reports one by one and packed, and everything that is wrong with them."""

import base64
import http.client
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sudare.collector import StoreUnavailable
from sudare.collector._engine import Verdict
from sudare.collector._messages import MOST_RECORDS
from sudare.collector._routes import LONGEST_REPORT, summary
from sudare.counting._reports import RECORD
from tests.collector.kit import Clock, a_survey
from tests.collector.served import Served, pack, serving, stop_limits, survey_of
from tests.support.waiting import PATIENCE, eventually

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("reports")) as collector:
        yield collector


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One that soon gives up those who are slow: for those who never finish."""
    options = {"body_seconds": 0.6, "header_seconds": 0.6}
    with serving(tmp_path_factory.mktemp("hasty"), **options) as collector:
        yield collector


def code(answer: Any) -> str:
    word: str = answer.json()["error"]["code"]
    return word


def test_a_report_is_counted_once_however_often_it_is_sent(served: Served) -> None:
    (report,) = served.reports(1)
    before = served.heard()
    for _ in range(3):
        answer = served.send(report)
        assert (answer.status_code, answer.content) == (204, b"")
        assert served.heard() == before + 1
    # Sent again with another bit it is still the same report: the first one stands.
    assert served.send(report | {"bit": 0}).status_code == 204
    assert served.heard() == before + 1


def test_marks_in_both_alphabets(served: Served) -> None:
    first, second = served.reports(2)
    mark = base64.urlsafe_b64decode(second["mark"] + "==")
    before = served.heard()
    assert served.send(first).status_code == 204
    assert served.send(second | {"mark": base64.b64encode(mark).decode()}).status_code == 204
    assert served.heard() == before + 2


@pytest.mark.parametrize("change", [0, 7, 15])
def test_a_forged_mark(served: Served, change: int) -> None:
    (report,) = served.reports(1)
    mark = bytearray(base64.urlsafe_b64decode(report["mark"] + "=="))
    mark[change] ^= 1
    forged = base64.urlsafe_b64encode(bytes(mark)).decode().rstrip("=")
    before = served.heard(), served.collector.status().refused.get("wrong_mark", 0)
    answer = served.send(report | {"mark": forged})
    assert (answer.status_code, code(answer)) == (403, "wrong_mark")
    assert (served.heard(), served.collector.status().refused["wrong_mark"] - 1) == before
    # A mark belongs to its serial: nobody can aim at a round with a ticket of another.
    for serial in (report["serial"] + 1, report["serial"] + served.survey.rounds, 2**48 - 1):
        assert code(served.send(report | {"serial": serial})) == "wrong_mark"


def test_slots_and_rounds_cannot_be_chosen(served: Served) -> None:
    (report,) = served.reports(1)
    for slot in (1, 2**31, 2**32 - 1):
        answer = served.send(report | {"slot": slot})
        assert (answer.status_code, code(answer)) == (400, "unknown_slot")
    (later,) = served.reports(1, round_=3)
    answer = served.send(later)
    assert (answer.status_code, code(answer)) == (425, "too_early")


def test_another_surveys_ticket_is_worth_nothing(served: Served, tmp_path: Any) -> None:
    with serving(tmp_path, survey_of(name="Another")) as other:
        (report,) = other.reports(1)
        assert code(served.send(report)) == "wrong_mark"
        assert other.send(report).status_code == 204


def test_too_late(tmp_path: Any) -> None:
    clock = Clock()
    with serving(tmp_path, a_survey(), clock=clock) as served:
        (report,) = served.reports(1)
        clock.set(1.5)
        answer = served.send(report)
        assert (answer.status_code, code(answer)) == (410, "too_late")
        assert answer.json()["error"]["message"] == "This report's round is over."


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"[]", b"null", b"1", b"\xff", b"{", b'{"serial":1}', b"[" * 500,
        b'{"serial":-1,"slot":0,"bit":0,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}',
        b'{"serial":281474976710656,"slot":0,"bit":0,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}',
        b'{"serial":1,"slot":4294967296,"bit":0,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}',
        b'{"serial":1,"slot":0,"bit":2,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}',
        b'{"serial":1,"slot":0,"bit":true,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}',
        b'{"serial":"1","slot":0,"bit":1,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}',
        b'{"serial":1.5,"slot":0,"bit":1,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}',
        b'{"serial":1,"slot":0,"bit":1,"mark":"AAAAAAAAAAAAAAAAAAAA"}',
        b'{"serial":1,"slot":0,"bit":1,"mark":"AAAAAAAAAAAAAAAAAAAAAAAAAA"}',
        b'{"serial":1,"slot":0,"bit":1,"mark":"AAAAAAAAAAAAAAAAAAAA!!"}',
        '{"serial":1,"slot":0,"bit":1,"mark":"ÄAAAAAAAAAAAAAAAAAAAAA"}'.encode(),
        b'{"serial":1,"slot":0,"bit":1,"mark":"AAAAAAAAAAAAAAAAAAAAAA","more":1}',
        b'{"serial":1e400,"slot":0,"bit":1,"mark":"AAAAAAAAAAAAAAAAAAAAAA"}',
    ],
)  # fmt: skip
def test_what_is_no_report(served: Served, body: bytes) -> None:
    before = served.collector.status().refused.get("malformed", 0)
    answer = served.http.post(f"{served.url}/reports", content=body, headers=JSON)
    assert (answer.status_code, code(answer)) == (400, "malformed")
    assert served.collector.status().refused["malformed"] == before + 1


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/jsonx", "multipart/form-data", ""]
)
def test_the_content_type_decides(served: Served, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    answer = served.http.post(f"{served.url}/reports", content=b"{}", headers=headers)
    assert (answer.status_code, code(answer)) == (415, "wrong_type")


def test_the_content_type_may_have_parameters(served: Served) -> None:
    (report,) = served.reports(1)
    kind = {"content-type": "Application/JSON; charset=utf-8"}
    assert served.send(report, headers=kind).status_code == 204


def test_a_batch(served: Served) -> None:
    good = served.reports(5)
    (later,) = served.reports(1, round_=2)
    forged = good[3] | {"mark": "A" * 22}
    unknown = good[3] | {"slot": 9}
    batch = [good[0], forged, good[1], later, unknown, good[0], forged]
    before = served.heard()
    answer = served.send_packed(pack(batch))
    assert answer.status_code == 200
    refused = {"wrong_mark": [1, 6], "unknown_slot": [4], "too_early": [3]}
    assert answer.json() == {"counted": 2, "repeated": 1, "refused": refused}
    assert served.heard() == before + 2
    again = served.send_packed(pack(batch))
    assert again.json() == {"counted": 0, "repeated": 3, "refused": refused}
    bad_bit = bytearray(pack(good[2:5]))
    bad_bit[12] = 7
    answer = served.send_packed(bytes(bad_bit))
    assert answer.json() == {"counted": 2, "repeated": 0, "refused": {"malformed": [0]}}


@pytest.mark.parametrize("size", [0, 1, RECORD.itemsize - 1, RECORD.itemsize + 1])
def test_a_batch_is_whole_records(served: Served, size: int) -> None:
    answer = served.send_packed(bytes(size))
    assert (answer.status_code, code(answer)) == (400, "malformed")


def test_the_largest_batch_and_a_larger_one(served: Served) -> None:
    answer = served.send_packed(bytes(MOST_RECORDS * RECORD.itemsize))
    assert answer.status_code == 200
    assert answer.json()["refused"]["wrong_mark"] == list(range(MOST_RECORDS))
    answer = served.send_packed(bytes((MOST_RECORDS + 1) * RECORD.itemsize))
    assert (answer.status_code, code(answer)) == (413, "oversized")


@pytest.mark.parametrize("kind", ["application/json", "application/octet-stream"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_not_read(served: Served, kind: str, chunked: bool) -> None:
    """100 MB are announced, or simply keep coming: refused after what is allowed at most."""
    before = served.collector.status().refused.get("oversized", 0)
    head = f"POST /v1/surveys/{served.id}/reports HTTP/1.1\r\nhost: a\r\ncontent-type: {kind}\r\n"
    head += "transfer-encoding: chunked\r\n\r\n" if chunked else "content-length: 100000000\r\n\r\n"
    piece = b"x" * 65536
    sent = 0
    with socket.create_connection((served.host, served.port), timeout=PATIENCE) as wire:
        wire.sendall(head.encode())
        wire.setblocking(False)
        answer = b""
        until = time.monotonic() + PATIENCE
        while sent < 100_000_000 and time.monotonic() < until:
            try:
                data = b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece
                sent += wire.send(data)
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                break
            try:
                answer = wire.recv(65536)
                break
            except BlockingIOError:
                continue
            except OSError:
                break
    assert sent < 30_000_000
    assert not answer or answer.startswith(b"HTTP/1.1 413")
    assert served.collector.status().refused["oversized"] == before + 1


def test_a_report_in_small_pieces(served: Served) -> None:
    (report,) = served.reports(1)
    before = served.heard()

    def pieces() -> Iterator[bytes]:
        text = str(report).replace("'", '"').encode()
        for byte in text:
            yield bytes([byte])

    answer = served.http.post(f"{served.url}/reports", content=pieces(), headers=JSON)
    assert answer.status_code == 204
    assert served.heard() == before + 1
    answer = served.http.post(
        f"{served.url}/reports", content=iter([b" " * (LONGEST_REPORT + 1)]), headers=JSON
    )
    assert code(answer) == "oversized"


def test_a_body_that_never_ends_is_given_up(hasty: Served) -> None:
    head = f"POST /v1/surveys/{hasty.id}/reports HTTP/1.1\r\nhost: a\r\n"
    head += f"content-type: application/json\r\ncontent-length: {LONGEST_REPORT}\r\n\r\n"
    with socket.create_connection((hasty.host, hasty.port), timeout=PATIENCE) as wire:
        wire.sendall(head.encode())
        until = time.monotonic() + PATIENCE
        wire.settimeout(0.1)
        answer = b""
        while not answer and time.monotonic() < until:
            # Each byte comes in time for itself; all of them do not.
            try:
                wire.sendall(b" ")
                answer = wire.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
    assert answer.startswith(b"HTTP/1.1 408")


def test_a_head_that_never_ends_is_given_up(hasty: Served) -> None:
    for begun in (b"", b"POST /v1/surv", b"POST / HTTP/1.1\r\nhost: a\r\nx-a: b\r\n"):
        with socket.create_connection((hasty.host, hasty.port), timeout=PATIENCE) as wire:
            wire.sendall(begun)
            assert wire.recv(100) == b""


def test_a_client_that_leaves_does_no_harm(served: Served) -> None:
    (report,) = served.reports(1)
    text = str(report).replace("'", '"').encode()
    before = served.heard()
    head = f"POST /v1/surveys/{served.id}/reports HTTP/1.1\r\nhost: a\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    with socket.create_connection((served.host, served.port)) as wire:
        wire.sendall(head.encode() + text[:20])
    with socket.create_connection((served.host, served.port)) as wire:
        wire.sendall(head.encode() + text)
    time.sleep(0.1)
    assert served.send(report).status_code == 204
    assert served.heard() == before + 1
    assert served.metric("sudare_faults_total") == 0


def test_a_store_that_fails_asks_to_try_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    (report,) = served.reports(1)

    def fail(records: bytes) -> None:
        raise StoreUnavailable("no disk")

    before = served.heard()
    monkeypatch.setattr(served.collector, "count", fail)
    for answer in (served.send(report), served.send_packed(pack([report]))):
        assert (answer.status_code, code(answer)) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) >= 1
    monkeypatch.undo()
    assert served.send(report).status_code == 204
    assert served.heard() == before + 1


def test_a_fault_in_counting_is_no_acknowledgement(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    (report,) = served.reports(1)

    def fail(records: bytes) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(served.collector, "count", fail)
    assert code(served.send(report)) == "unavailable"
    monkeypatch.undo()
    before = served.heard()
    assert served.send(report).status_code == 204
    assert served.heard() == before + 1


def test_too_many_waiting(tmp_path: Any) -> None:
    with serving(tmp_path, max_pending=3) as served:
        reports = served.reports(9)
        count = served.collector.count
        released = False

        def slow(records: bytes) -> Any:
            while not released:
                time.sleep(0.01)
            return count(records)

        served.collector.count = slow  # type: ignore[method-assign]
        wires = []
        for number, each in enumerate(reports[:4], start=1):
            wire = http.client.HTTPConnection(served.host, served.port, timeout=PATIENCE)
            wire.request(
                "POST",
                f"/v1/surveys/{served.id}/reports",
                str(each).replace("'", '"'),
                JSON,
            )
            wires.append(wire)
            eventually(lambda: served.metric("sudare_pending_reports") >= min(number, 3))  # noqa: B023
        refused = wires[3].getresponse()
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1
        released = True
        assert [wire.getresponse().status for wire in wires[:3]] == [204] * 3
        assert served.send(reports[3]).status_code == 204
        for wire in wires:
            wire.close()


def test_reports_may_be_limited_by_client(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_limits(monkeypatch)
    with serving(tmp_path, reports_per_second=0.01, reports_burst=2) as served:
        answers = [served.send(each) for each in served.reports(3)]
        assert [each.status_code for each in answers] == [204, 204, 429]
        assert code(answers[2]) == "rate_limited"
        assert int(answers[2].headers["retry-after"]) == 100
        assert served.collector.status().refused["rate_limited"] == 1


def test_the_summary_of_a_batch() -> None:
    assert summary(bytes(3)) == b'{"counted":3,"repeated":0,"refused":{}}'
    mixed = bytes([Verdict.COUNTED, Verdict.TOO_LATE, Verdict.REPEATED, Verdict.TOO_LATE])
    assert summary(mixed) == b'{"counted":1,"repeated":1,"refused":{"too_late":[1,3]}}'
