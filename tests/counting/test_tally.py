"""Tallies add up in any order and travel whole or not at all."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sudare.counting import Survey, Tally, empty_tally, read_tally
from sudare.foundations.checks import InvalidInput

SURVEY = Survey(name="s", rounds=4, epsilon=1.0)
OTHER = Survey(name="other", rounds=4, epsilon=1.0)
EMPTY = empty_tally(SURVEY)
SHARDS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=30)


def tallied(reports: list[tuple[int, int]], survey: Survey = SURVEY) -> Tally:
    return empty_tally(survey).add([cell for cell, _ in reports], [bit for _, bit in reports])


@given(SHARDS)
def test_counts_are_counts(reports):
    tally = tallied(reports)
    for cell in range(4):
        assert tally.reporters[cell] == sum(c == cell for c, _ in reports)
        assert tally.ones[cell] == sum(c == cell and b for c, b in reports)


@given(st.lists(SHARDS, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_shards_merge_in_any_order(shards, rnd):
    whole = tallied([report for shard in shards for report in shard])
    tallies = [tallied(shard) for shard in shards]
    assert reduce(add, tallies) == whole
    rnd.shuffle(tallies)
    assert reduce(lambda a, b: b + a, tallies) == whole
    assert reduce(lambda a, b: a.add([], []) + b, tallies, EMPTY) == whole


@given(st.lists(SHARDS, min_size=3, max_size=3))
def test_merging_is_associative_and_commutative(shards):
    a, b, c = map(tallied, shards)
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + EMPTY == a


@given(
    counts=st.lists(st.integers(0, 2**63 - 1), min_size=4, max_size=4),
    fraction=st.floats(0, 1),
)
def test_bytes_go_round_at_every_width(counts, fraction):
    n = np.array(counts, np.int64)
    tally = Tally(SURVEY.digest(), n, np.minimum(n, (n * fraction).astype(np.int64) // 2))
    again = read_tally(tally.to_bytes())
    assert again == tally
    assert hash(again) == hash(tally)
    assert again.reporters.tolist() == counts
    assert again.digest == SURVEY.digest()


@pytest.mark.parametrize(
    ("most", "width"), [(255, 1), (256, 2), (65535, 2), (65536, 4), (2**32, 8)]
)
def test_counts_take_the_shortest_width(most, width):
    n = np.array([most, 0, 0, 0])
    assert len(Tally(SURVEY.digest(), n, n).to_bytes()) == len(b"sudare-tally/1\n") + 37 + 8 * width


@given(st.integers(0, 59))
def test_bytes_cut_short_or_too_long(length):
    data = tallied([(0, 1)]).to_bytes()
    assert len(data) == 60
    for wrong in (data[:length], data + bytes(length + 1)):
        with pytest.raises(InvalidInput, match=r"Expected a (whole )?tally"):
            read_tally(wrong)


@given(place=st.integers(0, 59), value=st.integers(0, 255))
def test_a_byte_changed_is_refused_or_still_a_tally(place, value):
    data = bytearray(tallied([(0, 1), (2, 0)]).to_bytes())
    data[place] = value
    try:
        tally = read_tally(bytes(data))
    except InvalidInput:
        return
    assert ((tally.ones >= 0) & (tally.ones <= tally.reporters)).all()


def test_more_ones_than_reporters_are_refused():
    data = bytearray(tallied([(0, 1)]).to_bytes())
    data[-4] = 9
    with pytest.raises(InvalidInput, match="0 <= ones <= reporters"):
        read_tally(bytes(data))


def test_two_surveys_do_not_mix():
    with pytest.raises(InvalidInput, match="same survey"):
        EMPTY + empty_tally(OTHER)
    assert empty_tally(OTHER) != EMPTY
    assert EMPTY != 0


def test_counts_beyond_64_bits_are_refused():
    n = np.array([2**62, 0, 0, 0])
    for ones in (n, n * 0):
        tally = Tally(SURVEY.digest(), n, ones)
        with pytest.raises(InvalidInput):
            tally + tally


WRONG_CELLS = [[4], [-1], [0.0], ["0"], [None], [2**64 - 1], [True], [[0]], 0, [[0], [0, 1]]]


@pytest.mark.parametrize("cells", WRONG_CELLS, ids=str)
def test_cells_that_are_none(cells):
    with pytest.raises(InvalidInput, match="Expected"):
        EMPTY.add(cells, [1])


WRONG_BITS = [[2], [-1], [0.5], [1.0], ["1"], [None], [float("nan")], [[1]], 1, [[1], [1, 0]]]


@pytest.mark.parametrize("bits", WRONG_BITS, ids=str)
def test_bits_that_are_none(bits):
    with pytest.raises(InvalidInput) as refusal:
        EMPTY.add([0], bits)
    assert str(refusal.value) in (
        "Expected bits to hold only 0 and 1",
        "Expected two lists: as many bits as cells",
    )


def test_lists_of_matrices_are_refused():
    with pytest.raises(InvalidInput, match="two lists"):
        EMPTY.add([[0, 1]], [[1, 0]])


def test_bits_of_every_whole_type():
    for bits in ([True, False], np.array([1, 0], np.uint8), np.array([1, 0], np.int64)):
        assert EMPTY.add(np.array([1, 1], np.uint32), bits).ones.tolist() == [0, 1, 0, 0]


def test_a_wrong_report_leaves_the_tally_as_it_was():
    tally = tallied([(0, 1)])
    with pytest.raises(InvalidInput):
        tally.add([0, 9], [1, 1])
    assert tally == tallied([(0, 1)])


class Collector(RuleBasedStateMachine):
    """Shards that count, split, merge, are written and read again: nothing is lost or doubled."""

    @initialize()
    def begin(self):
        self.shards = [EMPTY]
        self.counted: list[tuple[int, int]] = []

    @rule(reports=SHARDS, at=st.integers(0, 9))
    def count(self, reports, at):
        i = at % len(self.shards)
        self.shards[i] = self.shards[i].add([c for c, _ in reports], [b for _, b in reports])
        self.counted += reports

    @rule()
    def open_another(self):
        self.shards.append(EMPTY)

    @rule(at=st.integers(0, 9))
    def restart(self, at):
        i = at % len(self.shards)
        self.shards[i] = read_tally(self.shards[i].to_bytes())

    @rule(at=st.integers(0, 9))
    def merge(self, at):
        if len(self.shards) > 1:
            self.shards[0] = self.shards.pop(1 + at % (len(self.shards) - 1)) + self.shards[0]

    @invariant()
    def nothing_lost(self):
        assert reduce(add, self.shards) == tallied(self.counted)


TestCollector = Collector.TestCase
TestCollector.settings = settings(max_examples=40, stateful_step_count=20)
