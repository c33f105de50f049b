"""The client: what it says when, what it keeps, and when it gives up."""

import json
import subprocess
import sys
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from sudare.counting import Client, MemoryStore
from sudare.foundations.checks import InvalidInput, SudareError
from tests.counting.pretend import START, Pretend, survey_of

METHODS = ["glance", "harmony", "harmony-signed", "rappor", "masks", "tree"]


def reporter_state(store):
    return msgspec.msgpack.decode(msgspec.msgpack.decode(store.load())["reporter"])


@pytest.mark.parametrize("method", METHODS)
def test_a_whole_survey(method):
    pretend = Pretend(survey_of(method))
    store = MemoryStore()
    client = pretend.client(store)
    assert client.survey == pretend.survey
    flips, coins = (reporter_state(store)[name] for name in ("flips", "coins"))
    said = pretend.run(client, [1, 0, 1, 1, 0, 1])
    spoken = [t for t in range(6) if client.ticket.slot_of(client.survey, t) is not None]
    assert [t for t, report in enumerate(said) if report] == spoken
    assert client.finished
    assert client.next_due is None
    assert client.pending == []
    assert client.lost == 0
    # Each was sent once, in its own round, and says what the coins drawn at the start decide.
    assert [pretend.counted[r.slot]["bit"] for r in said if r] == [r.bit for r in said if r]
    assert [when for when, _ in pretend.heard] == [START.timestamp() + 60 * t + 30 for t in spoken]
    assert (reporter_state(store)["flips"], reporter_state(store)["coins"]) == (flips, coins)
    if method != "tree":
        bits = [1, 0, 1, 1, 0, 1]
        assert [r.bit for r in said if r] == [bits[t] ^ flips[j] for j, t in enumerate(spoken)]


def test_enrolled_once_and_saved_before_anything_is_sent():
    pretend = Pretend()
    store = MemoryStore()
    pretend.client(store)
    assert pretend.asked == [("GET", "surveys"), ("POST", "tickets")]
    saved = store.load()
    pretend.client(store)
    assert pretend.asked[2:] == [("GET", pretend.survey.digest().hex()[:16])]
    assert store.load() == saved


def test_a_round_asked_again_sends_again_and_says_nothing_new():
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(0.2)
    first = client.report(1)
    assert client.report(0) == first
    assert len(pretend.heard) == 1, "it was acknowledged: nothing is left to send"
    pretend.at(1.2)
    pretend.faults = ["503 unavailable"]
    second = client.report(1, patience=0)
    assert client.pending == [second]
    pretend.time += 10
    assert client.report(0, patience=0) == second
    assert client.pending == []
    assert [r["slot"] for _, r in pretend.heard] == [0, 1, 1]


@pytest.mark.parametrize(
    "fault", ["request lost", "answer lost", "503 unavailable", "429 rate_limited", "garbage"]
)
def test_the_same_report_is_sent_until_it_is_acknowledged(fault):
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(0.1)
    pretend.faults = [fault] * 4
    report = client.report(1)
    assert report is not None
    assert client.pending == []
    sent = [r for _, r in pretend.heard]
    assert len(sent) == 5
    assert all(r == sent[0] for r in sent)
    # Further and further apart, never more than a tenth of a round.
    assert len(pretend.slept) == 4
    for i, pause in enumerate(pretend.slept):
        longest = min(6.0, 0.6 * 2**i)
        assert longest / 2 <= pause <= longest


def test_patience_ends_and_the_report_stays():
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(0.1)
    pretend.offline = True
    started = pretend.time
    report = client.report(1, patience=5)
    assert pretend.time - started <= 5
    assert client.pending == [report]
    assert not client.finished
    tries = len(pretend.asked)
    assert not client.send()
    assert len(pretend.asked) == tries, "not before the pause is over"
    pretend.time += 30
    pretend.offline = False
    assert client.send()
    assert client.pending == []
    assert len(pretend.counted) == 1


def test_the_collectors_wish_to_be_left_alone_is_kept():
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(0.1)
    pretend.faults = ["503 unavailable 9"]
    client.report(1)
    assert pretend.slept == [9.0]
    assert client.pending == []


def test_offline_in_its_round_it_sends_within_the_grace():
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(0.9)
    pretend.offline = True
    client.report(1, patience=0)
    pretend.offline = False
    pretend.at(1.05)
    assert client.send()
    assert [r["slot"] for _, r in pretend.heard] == [0]


def test_after_the_grace_it_is_lost_and_not_sent():
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(0.9)
    pretend.offline = True
    client.report(1, patience=0)
    pretend.offline = False
    pretend.at(1.11)
    client.report(1)
    assert [r["slot"] for _, r in pretend.heard] == [1]
    assert client.lost == 1
    assert client.pending == []


@pytest.mark.parametrize(
    "fault", ["410 too_late", "403 wrong_mark", "400 unknown_slot", "400 malformed"]
)
def test_refusals_that_nothing_can_change(fault):
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(0.1)
    pretend.faults = [fault]
    client.report(1)
    assert len(pretend.heard) == 1
    assert (client.pending, client.lost) == ([], 1)


def test_too_early_is_tried_again():
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(0.1)
    pretend.faults = ["425 too_early"]
    client.report(1)
    assert len(pretend.heard) == 2
    assert (client.pending, client.lost) == ([], 0)


def test_restarts_at_every_step(tmp_path):
    """A new process for each round, some of them offline: one answer a slot, none lost."""
    pretend = Pretend(survey_of("rappor", 8), grace=59.0)
    said = []
    for t in range(8):
        pretend.at(t + 0.5)
        pretend.offline = t in {1, 2, 5}
        with pretend.client(tmp_path / "state") as client:
            said.append(client.report(t % 2, patience=0))
    pretend.offline = False
    assert [r.slot for r in said if r] == list(range(8))
    # Offline for two rounds: the first of them was over by then.
    assert {slot: r["bit"] for slot, r in pretend.counted.items()} == {
        r.slot: r.bit for r in said if r and r.slot != 1
    }
    with pretend.client(tmp_path / "state") as client:
        assert client.lost == 1


def test_a_crash_between_saying_and_sending():
    """What was saved is sent by the next one to start, and nothing else is said."""
    pretend = Pretend(survey_of("rappor"))
    store = MemoryStore()
    client = pretend.client(store)
    pretend.at(0.1)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    client._ask = crash  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        client.report(1)
    assert pretend.heard == []
    again = pretend.client(store)
    (pending,) = again.pending
    assert again.report(0) == pending
    assert [r["bit"] for _, r in pretend.heard] == [pending.bit]


def test_bits_of_the_past():
    pretend = Pretend(survey_of("rappor"), grace=59.0)
    client = pretend.client()
    pretend.at(2.1)
    two = client.report(1, at=START + timedelta(seconds=90))
    three = client.report(0, at=START.timestamp() + 125)
    assert two is not None
    assert three is not None
    assert (two.slot, three.slot) == (1, 2)
    with pytest.raises(InvalidInput, match="rounds come in order"):
        client.report(1, at=START + timedelta(seconds=90))
    with pytest.raises(InvalidInput, match="has been"):
        client.report(1, at=START + timedelta(seconds=180))
    assert client.report(1, at=START - timedelta(days=3)) is None
    with pytest.raises(InvalidInput, match="time zone"):
        client.report(1, at=datetime(2026, 12, 1))
    wrong: Any
    for wrong in (float("nan"), "now", True):
        with pytest.raises(InvalidInput, match="at="):
            client.report(1, at=wrong)


def test_what_can_no_longer_be_counted_is_not_said():
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(2.5)
    assert client.report(1, at=START + timedelta(seconds=30)) is None
    assert pretend.heard == []


def test_before_and_after_the_survey_nothing_is_said():
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(-3)
    assert client.report(1) is None
    assert client.next_due == START
    pretend.at(6)
    assert client.report(1) is None
    assert pretend.heard == []
    pretend.at(6.2)
    assert client.finished


def test_a_clock_put_back_says_nothing_new():
    pretend = Pretend(survey_of("rappor"))
    client = pretend.client()
    pretend.at(3.5)
    assert client.report(1) is not None
    pretend.at(1.5)
    assert client.report(1) is None
    assert len(pretend.heard) == 1
    pretend.at(4.5)
    assert client.report(1) is not None


@pytest.mark.parametrize("ahead", [-7200.0, 61.0, 7200.0])
def test_a_wrong_clock_is_put_right(ahead):
    pretend = Pretend(survey_of("rappor"))
    pretend.ahead = ahead
    client = pretend.client()
    pretend.time = START.timestamp() + 150 - ahead
    report = client.report(1)
    assert report is not None
    assert report.slot == 2
    assert client.next_due == START + timedelta(seconds=180 - ahead)


def test_when_the_next_report_is_due():
    pretend = Pretend(survey_of("masks", 6))
    client = pretend.client()
    own = client.ticket.rounds
    for t in range(6):
        pretend.at(t + 0.5)
        later = [r for r in own if r >= t]
        assert client.next_due == (START + timedelta(minutes=later[0]) if later else None)
        client.report(1)
        later = [r for r in own if r > t]
        assert client.next_due == (START + timedelta(minutes=later[0]) if later else None)


def test_bits_that_are_none_are_refused_in_every_round():
    pretend = Pretend(survey_of("glance"))
    client = pretend.client()
    for t in (-1, 0, 1, 2, 3, 4, 5, 9):
        pretend.at(t + 0.5)
        with pytest.raises(InvalidInput, match=r"^Expected bit to be 0 or 1$"):
            client.report(2)
    assert pretend.heard == []


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://x", "http://", 5, None])
def test_addresses_that_are_none(url):
    with pytest.raises(InvalidInput, match="Expected url"):
        Client(url, MemoryStore())


def test_a_file_is_let_go(tmp_path):
    file = tmp_path / "x.state"
    pretend = Pretend()
    pretend.offline = True
    with pytest.raises(SudareError, match="cannot be reached"):
        pretend.client(file)
    pretend.offline = False
    with pretend.client(file), pytest.raises(SudareError, match="in use"):
        pretend.client(file)
    pretend.client(file).close()
    assert file.stat().st_mode & 0o077 == 0


def test_a_ticket_from_others():
    pretend = Pretend(survey_of("masks"))
    digest = pretend.survey.digest().hex()
    own = {"survey": digest, "serial": 9, "rounds": [0, 2, 4], "level": 0}
    line = json.dumps(own | {"mark": "AAECAwQFBgcICQoLDA0ODw"})
    for given in (line, line.encode()):
        client = pretend.client(ticket=given)
        assert (client.ticket.serial, client.ticket.rounds) == (9, (0, 2, 4))
        assert client.ticket.mark == bytes(range(16))
    assert ("POST", "tickets") not in pretend.asked
    for wrong in ("", "5", "{}", line + line, line.replace("AAEC", "****")):
        with pytest.raises(InvalidInput, match="one JSON object"):
            pretend.client(ticket=wrong)
    with pytest.raises(InvalidInput, match="Expected a ticket of this survey"):
        pretend.client(ticket=line.replace(digest, "00" * 32))


def test_counting_stays_light():
    """Whoever only estimates does not load an HTTP client."""
    code = "import sys, sudare.counting; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
