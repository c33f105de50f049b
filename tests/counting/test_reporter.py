"""What a reporter answers and what it refuses."""

import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from sudare.counting import (
    MemoryStore,
    Report,
    Reporter,
    Survey,
    Ticket,
    empty_tally,
    open_office,
    unpack,
)
from sudare.foundations.checks import InvalidInput, PrivacyError, SudareError
from sudare.foundations.randomness import secure, seeded
from tests.counting.devices import MARK, edit, enrolled, state_of, ticket

MASKS = Survey(name="m", rounds=6, epsilon=1.0, method="masks", slots=3)
GLANCE = Survey(name="g", rounds=6, epsilon=1.0)
RAPPOR = Survey(name="r", rounds=6, epsilon=1.0, method="rappor")
TREE = Survey(name="t", rounds=6, epsilon=1.0, method="tree", changes=2)
EVERY = [
    (MASKS, {"rounds": (1, 2, 5)}),
    (GLANCE, {"rounds": (4,)}),
    (RAPPOR, {}),
    (TREE, {"level": 0}),
    (TREE, {"level": 1}),
    (TREE, {"level": 2}),
]
SURVEYS = pytest.mark.parametrize(
    ("survey", "own"), EVERY, ids=lambda x: getattr(x, "name", str(x))
)


def test_an_answer_is_the_bit_and_its_flip():
    for flips in ((0, 0, 0), (1, 0, 1), (0, 1, 1)):
        for bits in ((0, 0, 0), (1, 1, 1), (0, 1, 0)):
            reporter, store = enrolled(MASKS, ticket(MASKS, (1, 2, 5)))
            edit(store, flips=bytes(flips))
            sent = [reporter.report(t, bits[{1: 0, 2: 1, 5: 2}.get(t, 0)]) for t in range(6)]
            expected = [Report(7, j, bits[j] ^ flips[j], MARK) for j in range(3)]
            assert sent == [None, expected[0], expected[1], None, None, expected[2]]
            assert reporter.reports() == expected


def test_rappor_answers_in_every_round_through_its_own_flip():
    reporter, store = enrolled(RAPPOR, ticket(RAPPOR))
    edit(store, flips=bytes([0, 1, 1, 0, 0, 1]))
    sent = [reporter.report(t, t % 2) for t in range(6)]
    assert [report.bit for report in sent if report] == [0, 0, 1, 1, 0, 0]


def test_tree_sends_movements_through_flips_and_coins_otherwise():
    reporter, store = enrolled(TREE, ticket(TREE))
    edit(store, flips=bytes([0, 1]), coins=bytes([0, 1, 0, 1, 1, 0]))
    # moves: up (flip 0 → 1), none (coin 1), down (flip 1 → 1), then k = 2 are used up: coins.
    said = [
        report.bit for t, v in enumerate([1, 1, 0, 1, 0, 0]) if (report := reporter.report(t, v))
    ]
    assert said == [1, 1, 1, 1, 1, 0]


def test_tree_sees_only_the_ends_of_its_stretches():
    reporter, store = enrolled(TREE, ticket(TREE, level=1))
    edit(store, flips=bytes([0, 0]), coins=bytes([0, 0, 0]))
    said = [reporter.report(t, v) for t, v in enumerate([1, 0, 0, 1, 0, 0])]
    assert [report and report.bit for report in said] == [None, 0, None, 1, None, 0]


@SURVEYS
def test_the_same_round_again_repeats_the_report_whatever_the_bit(survey, own):
    reporter, _ = enrolled(survey, ticket(survey, **own), seed=3)
    for t in range(6):
        first = reporter.report(t, 1)
        assert reporter.report(t, 0) == first
        assert reporter.report(t, 1) == first


@SURVEYS
def test_finished_when_every_slot_is_answered(survey, own):
    reporter, _ = enrolled(survey, ticket(survey, **own))
    done = []
    for t in range(6):
        reporter.report(t, 1)
        done.append(reporter.finished)
    assert done[-1]
    assert not done[0]
    assert done == sorted(done)
    assert len(reporter.reports()) == reporter.ticket.slots(survey)
    # Nothing is left to say.
    before = reporter.reports()
    reporter.report(5, 0)
    assert reporter.reports() == before


@SURVEYS
def test_rounds_that_are_missed_stay_unreported(survey, own):
    reporter, _ = enrolled(survey, ticket(survey, **own))
    reporter.report(5, 1)
    assert len(reporter.reports()) <= 1
    for t in range(5):
        with pytest.raises(InvalidInput, match="rounds come in order"):
            reporter.report(t, 1)


WRONG_BITS = [
    2,
    -1,
    0.5,
    0.0,
    1.0,
    "1",
    None,
    math.nan,
    np.nan,
    [1],
    np.float64(1),
    Fraction(1),
    b"\1",
]


@pytest.mark.parametrize("bit", WRONG_BITS, ids=repr)
@SURVEYS
def test_a_wrong_bit_is_refused_without_being_named(survey, own, bit):
    reporter, store = enrolled(survey, ticket(survey, **own))
    before = store.load()
    for t in range(6):
        with pytest.raises(InvalidInput) as refusal:
            reporter.report(t, bit)
        assert str(refusal.value) == "Expected bit to be 0 or 1"
    assert store.load() == before


@pytest.mark.parametrize("one", [1, True, np.True_, np.int64(1), np.uint8(1)], ids=repr)
def test_bits_of_every_whole_type(one):
    reporter, store = enrolled(GLANCE, ticket(GLANCE, (0,)))
    edit(store, flips=bytes(1))
    report = reporter.report(0, one)
    assert report is not None
    assert type(report.bit) is int
    assert report.bit == 1


@pytest.mark.parametrize("round_", [6, -1, 10**30, 0.0, 1.5, "0", None, True, math.nan], ids=repr)
@SURVEYS
def test_rounds_that_are_none(survey, own, round_):
    reporter, _ = enrolled(survey, ticket(survey, **own))
    with pytest.raises(InvalidInput, match=r"^Expected round between 0 and 5$"):
        reporter.report(round_, 1)


def test_numpy_rounds_are_rounds():
    reporter, _ = enrolled(GLANCE, ticket(GLANCE, (2,)))
    rounds: list[Any] = [np.int64(1), np.uint8(2)]
    assert reporter.report(rounds[0], 1) is None
    report = reporter.report(rounds[1], 1)
    assert report is not None
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


@pytest.mark.parametrize(
    "wrong",
    [
        ticket(GLANCE, (4,)),
        ticket(MASKS),
        ticket(MASKS, (1, 2)),
        ticket(MASKS, (1, 2, 2)),
        ticket(MASKS, (2, 1, 5)),
        ticket(MASKS, (1, 2, 6)),
        ticket(MASKS, (-1, 2, 5)),
        Ticket(MASKS.digest(), -1, MARK, (1, 2, 5)),
        Ticket(MASKS.digest(), 2**48, MARK, (1, 2, 5)),
        Ticket(MASKS.digest(), 1, MARK[1:], (1, 2, 5)),
    ],
    ids=repr,
)
def test_tickets_that_no_office_issues(wrong):
    with pytest.raises(InvalidInput, match="Expected a ticket"):
        Reporter.enrol(MASKS, wrong, MemoryStore())


@pytest.mark.parametrize(
    "wrong", [ticket(TREE, level=3), ticket(TREE, level=-1), ticket(TREE, (1,))]
)
def test_tree_tickets_that_no_office_issues(wrong):
    with pytest.raises(InvalidInput, match="Expected a ticket"):
        Reporter.enrol(TREE, wrong, MemoryStore())


def test_rappor_tickets_name_no_rounds():
    with pytest.raises(InvalidInput, match="Expected a ticket"):
        Reporter.enrol(RAPPOR, ticket(RAPPOR, (1,)), MemoryStore())


def test_nobody_enrols_twice():
    _, store = enrolled(MASKS, ticket(MASKS, (1, 2, 5)))
    before = store.load()
    with pytest.raises(PrivacyError, match="twice"):
        Reporter.enrol(MASKS, ticket(MASKS, (1, 2, 5)), store)
    assert store.load() == before


def test_taking_up_needs_something_saved_for_this_survey():
    with pytest.raises(InvalidInput, match="enrol"):
        Reporter(MASKS, MemoryStore())
    _, store = enrolled(MASKS, ticket(MASKS, (1, 2, 5)))
    with pytest.raises(InvalidInput, match="the survey that the saved ticket is for"):
        Reporter(GLANCE, store)
    edit(store, version=2)
    with pytest.raises(InvalidInput, match="this version"):
        Reporter(MASKS, store)


def test_simulated_reporters_say_so_even_after_a_restart():
    for rng, simulated in ((seeded(1), True), (secure(), False), (None, False)):
        store = MemoryStore()
        assert Reporter.enrol(GLANCE, ticket(GLANCE, (1,)), store, rng).simulated is simulated
        assert Reporter(GLANCE, store).simulated is simulated


@SURVEYS
def test_no_message_holds_the_bit(survey, own):
    """With the same transcript, every error, text and report is the same for either bit."""

    def told(bit: int) -> list[str]:
        reporter, store = enrolled(survey, ticket(survey, **own))
        state = state_of(store)
        # Flips that hide the bits, and coins that go with what was said.
        state["flips"] = bytes([bit] * len(state["flips"]))
        store.save(msgspec.msgpack.encode(state))
        texts = [repr(reporter), str(reporter)]
        if survey.method != "tree":
            texts += [repr(reporter.report(t, bit)) for t in range(6)]
        else:
            reporter.report(5, bit)
        for call in (
            lambda: reporter.report(0, bit),
            lambda: reporter.report(9, bit),
            lambda: reporter.report(5, bit + 2),
            lambda: Reporter.enrol(survey, ticket(survey, **own), store),
            lambda: Reporter(Survey(name="x", rounds=1, epsilon=1.0), store),
        ):
            with pytest.raises(SudareError) as refusal:
                call()
            assert refusal.value.__cause__ is None
            texts.append(str(refusal.value))
        return [text.split(" at 0x")[0] for text in texts]

    assert told(0) == told(1)


def test_from_tickets_to_counts():
    """The whole way, with every device's coins unset: estimates are the truth."""
    for survey in (MASKS, GLANCE, RAPPOR):
        office = open_office(survey, bytes(32))
        sent = b""
        for own in office.issue_many(range(12)):
            reporter, store = enrolled(survey, own)
            edit(store, flips=bytes(len(state_of(store)["flips"])))
            for t in range(6):
                if report := reporter.report(t, int(own.serial < 2 * t)):
                    sent += report.pack()
        batch = unpack(sent)
        assert office.authentic(batch.serials, batch.marks).all()
        tally = empty_tally(survey).add(office.cells(batch.serials, batch.slots), batch.bits)
        heard = [
            [own for own in office.issue_many(range(12)) if own.slot_of(survey, t) is not None]
            for t in range(6)
        ]
        assert tally.reporters.tolist() == [len(owns) for owns in heard]
        assert tally.ones.tolist() == [
            sum(own.serial < 2 * t for own in owns) for t, owns in enumerate(heard)
        ]
