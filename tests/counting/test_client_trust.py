"""What a client does not take from a collector, and what it does not tell by its behaviour."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.counting import Client, CollectorError, MemoryStore
from sudare.counting.wire import check_description, read_description
from sudare.foundations.checks import InvalidInput, PrivacyError, SudareError
from tests.counting.pretend import Pretend, survey_of, transcripts

METHODS = ["glance", "rappor", "masks", "tree"]


def refused(pretend: Pretend, kind: type[SudareError], match: str, **more: Any) -> None:
    """Nothing is saved, and nothing but questions was sent."""
    store = MemoryStore()
    with pytest.raises(kind, match=match):
        pretend.client(store, **more)
    assert store.load() is None
    assert pretend.heard == []


@pytest.mark.parametrize("field", ["near_weight", "far_weight", "threshold", "slots"])
def test_a_law_that_does_not_follow_from_the_survey(field):
    pretend = Pretend()
    law = pretend.description()["law"]
    wrong = law[field] + 1 if isinstance(law[field], int) else str(int(law[field]) + 1)
    pretend.described = {"law": {**law, field: wrong}}
    refused(pretend, PrivacyError, "does not follow from its survey")
    assert ("POST", "tickets") not in pretend.asked


@pytest.mark.parametrize(
    "lie",
    [
        {"epsilon": 0.9},
        {"rounds": 7},
        {"name": "another"},
        {"question": "another"},
        {"method": "glance", "slots": 1},
        {"slots": 2},
        {"threshold": 1},
        {"start": "2026-12-01T00:00:01Z"},
        {"round_seconds": 61.0},
        {"digest": "00" * 32},
    ],
    ids=str,
)
def test_a_description_that_is_not_the_digests(lie):
    pretend = Pretend()
    pretend.described = lie
    refused(pretend, PrivacyError, "does not follow from its survey")


def test_how_many_flips_is_part_of_the_survey():
    """A tree of the version before has no word about it, and its digest none either."""
    plain, few = survey_of("tree", changes=4), survey_of("tree", changes=4, flips="stretches")
    assert "flips" not in Pretend(plain).description()
    assert plain.digest() != few.digest()
    for survey in (plain, few):
        pretend = Pretend(survey)
        assert pretend.client().survey == survey
        pretend.described = {"flips": "stretches"} if survey == plain else {"flips": None}
        refused(pretend, SudareError, "does not follow|makes no sense")
    # A client that knows nothing of it works out another digest, and stays away.
    pretend = Pretend(few)
    told = pretend.description()
    del told["flips"]
    unaware, described = read_description(json.dumps(told).encode())
    with pytest.raises(PrivacyError, match="does not follow"):
        check_description(unaware, described, 10.0)


def test_more_epsilon_than_the_device_allows():
    pretend = Pretend(survey_of("glance", epsilon=10.5))
    refused(pretend, PrivacyError, r"asks for epsilon=10\.5, more than the max_epsilon=10 ")
    refused(Pretend(), PrivacyError, r"max_epsilon=0\.5", max_epsilon=0.5)
    store = MemoryStore()
    assert pretend.client(store, max_epsilon=11).survey.epsilon == 10.5
    for pretend.offline in (False, True):
        with pytest.raises(PrivacyError, match="asks for"):
            pretend.client(store)
    with pytest.raises(InvalidInput, match="max_epsilon=0"):
        Pretend().client(max_epsilon=0)


@pytest.mark.parametrize(
    "lie",
    [
        {"survey": "00" * 32},
        {"rounds": [1, 2]},
        {"rounds": [2, 1, 5]},
        {"rounds": [1, 2, 6]},
        {"rounds": [1, 1, 2]},
        {"serial": -1},
        {"serial": 2**48},
        {"mark": "AAECAwQFBgcICQoLDA0O"},
    ],
    ids=str,
)
def test_a_ticket_of_something_else(lie):
    pretend = Pretend()
    pretend.ticket = lie
    refused(pretend, InvalidInput, "Expected a ticket")


@pytest.mark.parametrize(
    "lie",
    [{"mark": "a b"}, {"mark": 5}, {"survey": "zz"}, {"serial": "1"}, {"rounds": 3}, {"mark": "é"}],
    ids=str,
)
def test_something_that_is_no_ticket(lie):
    pretend = Pretend()
    pretend.ticket = lie
    refused(pretend, CollectorError, "no ticket")


@pytest.mark.parametrize(
    "lie",
    [
        {"rounds": 0},
        {"epsilon": -1},
        {"epsilon": None},
        {"method": "none"},
        {"start": "soon"},
        {"now": "2026-12-01T00:00:00"},
        {"now": 5},
        {"grace_seconds": -1},
        {"late_seconds": "x"},
        {"law": 5},
    ],
    ids=str,
)
def test_a_description_that_makes_no_sense(lie):
    pretend = Pretend()
    pretend.described = lie
    refused(pretend, CollectorError, "makes no sense")


def test_surveys_that_no_device_can_keep():
    plain = Pretend(survey_of("glance", start=None, round_seconds=None))
    refused(plain, CollectorError, "no beginning")
    refused(Pretend(survey_of("glance", round_seconds=1e-9)), CollectorError, "of no length")


def test_an_answer_without_end_is_not_read():
    pretend = Pretend()
    pretend.described = {"padding": "x" * (1 << 20)}
    refused(pretend, CollectorError, "does not end")


@pytest.mark.parametrize("packed", ["gzip", "gzip, gzip, gzip", "br"])
def test_an_answer_is_not_unpacked(packed):
    """A kilobyte, packed three times over, may be gigabytes."""
    head = {"content-encoding": packed}
    stream = httpx.ByteStream(gzip.compress(bytes(1 << 20)))

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "identity"
        return httpx.Response(200, headers=head, stream=stream)

    with pytest.raises(CollectorError, match="packed"):
        Client("http://collector", MemoryStore(), httpx.MockTransport(answer))


def test_an_answer_that_comes_too_slowly_is_given_up(monkeypatch):
    """Each byte in time, and all of them never."""
    now = iter(range(0, 1 << 30, 9))
    monkeypatch.setattr("sudare.counting._client.time.monotonic", lambda: next(now))
    given = 0

    class Drip(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            nonlocal given
            for given in range(1000):  # noqa: B007
                yield b" "

    with pytest.raises(CollectorError, match="does not end"):
        Client(
            "http://collector",
            MemoryStore(),
            httpx.MockTransport(lambda request: httpx.Response(200, stream=Drip())),
        )
    assert given < 10


def test_a_wish_to_be_left_alone_for_good_is_not_heeded():
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(0.1)
    pretend.faults = ["503 unavailable " + "9" * 400]
    client.report(1, patience=0)
    pretend.at(1.5)
    client.report(1, patience=0)
    assert [report["slot"] for _, report in pretend.heard] == [0, 1]


def test_another_survey_at_the_same_address():
    """A store is for one survey: no answer makes the client draw coins again."""
    pretend, store = Pretend(), MemoryStore()
    pretend.client(store)
    saved = store.load()
    other = Pretend(survey_of("glance"))
    with pytest.raises(PrivacyError, match="another survey"):
        other.client(store)
    assert store.load() == saved
    assert other.asked == [("GET", pretend.survey.digest().hex()[:16])]


@pytest.mark.parametrize("data", [b"", b"\x80", b"nonsense", msgspec.msgpack.encode({"a": 1})])
def test_a_damaged_store_is_not_begun_afresh(data):
    store = MemoryStore()
    store.save(data)
    pretend = Pretend()
    with pytest.raises(InvalidInput, match="damaged"):
        pretend.client(store)
    assert pretend.asked == []


def test_a_store_of_another_version():
    store = MemoryStore()
    Pretend().client(store)
    saved = store.load()
    assert saved is not None
    store.save(msgspec.msgpack.encode({**msgspec.msgpack.decode(saved), "version": 2}))
    with pytest.raises(InvalidInput, match="this version"):
        Pretend().client(store)


FAULTS = ["", "", "", "request lost", "answer lost", "503 unavailable 3", "410 too_late", "garbage"]


@settings(max_examples=60)
@given(
    method=st.sampled_from(METHODS),
    steps=st.lists(st.integers(1, 100), min_size=1, max_size=12),
    flips=st.lists(st.booleans(), min_size=12, max_size=12),
    offline=st.lists(st.booleans(), min_size=12, max_size=12),
    faults=st.lists(st.sampled_from(FAULTS), max_size=12),
    restarts=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_whether_and_when_it_sends_tells_nothing_of_the_bits(
    method, steps, flips, offline, faults, restarts
):
    """The same ticket, clock, network and crashes; opposite bits throughout: the same behaviour."""

    def live(opposite: int) -> Pretend:
        pretend = Pretend(survey_of(method))
        pretend.faults = list(faults)
        store = MemoryStore()
        client = _steady(pretend.client(store))
        for step, flip, off, restart in zip(steps, flips, offline, restarts, strict=False):
            pretend.time += step
            if restart:
                client = _steady(pretend.client(store))
            pretend.offline = off
            client.report(int(flip) ^ opposite)
            pretend.offline = False
        return pretend

    first, second = transcripts(live)
    assert first == second


def _steady(client: Any) -> Any:
    """Pauses without their random part, so that two lives can be compared."""
    client._jitter = type("Even", (), {"random": staticmethod(lambda: 0.5)})
    return client


def test_reports_of_either_bit_are_equally_long():
    pretend = Pretend(survey_of("rappor", 40))
    pretend.run(pretend.client(), [0, 1] * 20)
    lengths = {r["bit"]: len(json.dumps({**r, "slot": 0})) for _, r in pretend.heard}
    assert set(lengths) == {0, 1}
    assert lengths[0] == lengths[1]
