"""Crashes, restarts and damaged files: a slot is never answered in two ways."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sudare.counting import MemoryStore, Report, Reporter, Survey
from sudare.foundations.checks import InvalidInput, PrivacyError
from sudare.foundations.randomness import seeded
from tests.counting.devices import edit, enrolled, state_of, ticket

SURVEY = Survey(name="s", rounds=6, epsilon=1.0, method="masks", slots=3)
OWN = ticket(SURVEY, (1, 2, 5))
TREE = Survey(name="t", rounds=6, epsilon=1.0, method="tree", changes=2)
RAPPOR = Survey(name="r", rounds=6, epsilon=1.0, method="rappor")


class Crash(Exception):
    """The machine stops."""


class FragileStore(MemoryStore):
    """Crashes before or after saving, when told to."""

    fails: str | None = None

    def save(self, state: bytes) -> None:
        fails, self.fails = self.fails, None
        if fails == "before":
            raise Crash
        super().save(state)
        if fails == "after":
            raise Crash


class Life(RuleBasedStateMachine):
    """A device through rounds, crashes, restarts and a second program on the same store."""

    @initialize(
        which=st.sampled_from([(SURVEY, OWN), (TREE, ticket(TREE)), (RAPPOR, ticket(RAPPOR))]),
        seed=st.integers(0, 99),
    )
    def enrol(self, which, seed):
        self.survey, own = which
        self.store = FragileStore()
        self.reporter = Reporter.enrol(self.survey, own, self.store, seeded(seed))
        state = state_of(self.store)
        self.flips, self.coins = state["flips"], state["coins"]
        self.round = 0
        self.heard: dict[int, Report] = {}
        self.bit, self.moves = 0, 0

    def _said(self, slot: int, bit: int) -> int:
        """What an answer must be, by the coins drawn in the beginning."""
        if self.survey.method != "tree":
            return bit ^ self.flips[slot]
        if bit == self.bit or self.moves == len(self.flips):
            return self.coins[slot]
        return int(bit > self.bit) ^ self.flips[self.moves]

    def _took(self, bit: int) -> None:
        self.moves += bit != self.bit and self.moves < len(self.flips)
        self.bit = bit

    def _ask(self, reporter: Reporter, bit: int) -> None:
        slot = reporter.ticket.slot_of(self.survey, self.round)
        answered = state_of(self.store)["sent"]
        report = reporter.report(self.round, bit)
        if slot is None:
            assert report is None
            return
        assert report is not None
        assert report.slot == slot
        if slot in answered:
            assert report.bit == answered[slot]
        else:
            assert report.bit == self._said(slot, bit)
            self._took(bit)
        # Saved before it was handed out, and never said otherwise.
        assert state_of(self.store)["sent"][slot] == report.bit
        assert self.heard.setdefault(slot, report) == report

    @rule(bit=st.integers(0, 1))
    def ask(self, bit):
        self._ask(self.reporter, bit)

    @rule(bit=st.integers(0, 1))
    def ask_a_second_program(self, bit):
        self._ask(Reporter(self.survey, self.store), bit)

    @rule(bit=st.integers(0, 1), when=st.sampled_from(["before", "after"]), restart=st.booleans())
    def crash(self, bit, when, restart):
        slot = self.reporter.ticket.slot_of(self.survey, self.round)
        if slot is not None and slot not in state_of(self.store)["sent"]:
            self.store.fails = when
            with pytest.raises(Crash):
                self.reporter.report(self.round, bit)
            if when == "after":
                self._took(bit)
        if restart:
            self.reporter = Reporter(self.survey, self.store)

    @precondition(lambda self: self.round < 5)
    @rule(by=st.integers(1, 3))
    def time_passes(self, by):
        self.round = min(5, self.round + by)

    @precondition(lambda self: self.round > 0)
    @rule(bit=st.integers(0, 1), back=st.integers(1, 6))
    def ask_late(self, bit, back):
        early = self.round - back
        before = self.store.load()
        try:
            report = self.reporter.report(early, bit)
        except InvalidInput:
            assert self.store.load() == before
        else:  # no later round has been asked about: it was only missed
            if report is not None:
                slot = report.slot
                if slot not in self.heard and before != self.store.load():
                    assert report.bit == self._said(slot, bit)
                    self._took(bit)
                assert self.heard.setdefault(slot, report) == report

    @invariant()
    def coins_never_change(self):
        state = state_of(self.store)
        assert (state["flips"], state["coins"]) == (self.flips, self.coins)
        assert state["moves"] == (self.moves if self.survey.method == "tree" else 0)
        for slot, report in self.heard.items():
            assert state["sent"][slot] == report.bit
        assert {report.slot for report in Reporter(self.survey, self.store).reports()} == set(
            state["sent"]
        )


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=150, stateful_step_count=25)


def test_a_stale_reporter_repeats_what_another_said():
    """Two reporters on one store are one reporter: the store is what counts."""
    first, store = enrolled(SURVEY, OWN)
    second = Reporter(SURVEY, store)
    said = first.report(1, 1)
    assert second.report(1, 0) == said


def test_an_answer_that_was_saved_but_not_handed_out_stands():
    store = FragileStore()
    reporter = Reporter.enrol(SURVEY, OWN, store, seeded(0))
    store.fails = "after"
    with pytest.raises(Crash):
        reporter.report(1, 1)
    saved = state_of(store)["sent"][0]
    for asked in (reporter, Reporter(SURVEY, store)):
        for bit in (0, 1):
            report = asked.report(1, bit)
            assert report is not None
            assert report.bit == saved


def test_a_crash_while_enrolling_never_draws_twice():
    store = FragileStore()
    store.fails = "after"
    with pytest.raises(Crash):
        Reporter.enrol(SURVEY, OWN, store, seeded(0))
    with pytest.raises(PrivacyError, match="twice"):
        Reporter.enrol(SURVEY, OWN, store, seeded(1))
    assert Reporter(SURVEY, store).report(1, 1) is not None


def _damaged(change: Callable[[bytes], bytes]) -> None:
    """What is left of the state is either the state, or refused by name."""
    _, store = enrolled(SURVEY, OWN)
    saved = store.load()
    assert saved is not None
    store.save(change(saved))
    try:
        reporter = Reporter(SURVEY, store)
    except InvalidInput:
        return
    for t in range(6):
        report = reporter.report(t, 1)
        assert report is None or report.bit in (0, 1)


def test_a_file_cut_short_anywhere():
    _, store = enrolled(SURVEY, OWN)
    saved = store.load()
    assert saved is not None
    for length in range(len(saved)):
        store.save(saved[:length])
        with pytest.raises(InvalidInput, match="damaged"):
            Reporter(SURVEY, store)
        with pytest.raises(PrivacyError):
            Reporter.enrol(SURVEY, OWN, store)


@given(place=st.integers(0, 400), value=st.integers(0, 255))
@settings(max_examples=300)
def test_a_byte_changed_anywhere(place, value):
    _damaged(
        lambda saved: saved[: place % len(saved)] + bytes([value]) + saved[place % len(saved) + 1 :]
    )


@given(junk=st.binary(max_size=60))
@settings(max_examples=200)
def test_any_bytes_at_all(junk):
    _damaged(lambda saved: junk)
    _damaged(lambda saved: saved + junk)


@pytest.mark.parametrize(
    "fields",
    [
        {"flips": b""},
        {"flips": bytes(2)},
        {"flips": bytes(4)},
        {"flips": bytes([0, 2, 0])},
        {"flips": None},
        {"coins": bytes(3)},
        {"sent": {3: 1}},
        {"sent": {-1: 1}},
        {"sent": {0: 2}},
        {"sent": {"0": 1}},
        {"round": 6},
        {"round": -2},
        {"bit": 2},
        {"moves": 4},
        {"moves": -1},
        {"ticket": None},
        {"unknown": 1},
    ],
    ids=str,
)
def test_coins_that_do_not_fit_the_ticket(fields):
    """A reporter with a coin too few would fall silent, or tell the truth."""
    _, store = enrolled(SURVEY, OWN)
    edit(store, **fields)
    with pytest.raises(InvalidInput, match="damaged"):
        Reporter(SURVEY, store)


def test_a_saved_ticket_is_checked_again():
    _, store = enrolled(SURVEY, OWN)
    edit(store, ticket=msgspec.to_builtins(ticket(SURVEY, (1, 1, 2)), builtin_types=(bytes,)))
    with pytest.raises(InvalidInput, match="slots that the survey describes"):
        Reporter(SURVEY, store)


def test_deep_nonsense_is_damage():
    _, store = enrolled(SURVEY, OWN)
    store.save(b"\x91" * 100_000)
    with pytest.raises(InvalidInput, match="damaged"):
        Reporter(SURVEY, store)
