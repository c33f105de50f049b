"""Tickets: every round covered alike, nobody aims, nobody forges."""

from itertools import combinations, permutations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.counting import Survey, Ticket, TicketOffice, open_office, unpack
from sudare.counting._estimation import binomial_interval
from sudare.counting._reports import Report
from sudare.counting._tickets import MAX_SERIAL
from sudare.foundations.checks import InvalidInput
from tests.statistical import counts_fit, only_counts_fit

KEY = bytes(range(32))


def masks(rounds: int, slots: int = 1, name: str = "s") -> Survey:
    return Survey(name=name, rounds=rounds, epsilon=1.0, method="masks", slots=slots)


def rounds_of(survey: Survey, numbers, key: bytes = KEY) -> np.ndarray:
    return np.array([own.rounds for own in open_office(survey, key).issue_many(numbers)])


def last_number(rounds: int) -> int:
    """Of the last whole block."""
    return (MAX_SERIAL + 1) // rounds * rounds - 1


@given(rounds=st.integers(1, 30), data=st.data())
def test_every_complete_block_covers_every_round_alike(rounds, data):
    slots = data.draw(st.integers(1, min(rounds, 30)))
    block = data.draw(st.integers(0, MAX_SERIAL // rounds - 1))
    mine = rounds_of(masks(rounds, slots), np.arange(rounds) + block * rounds)
    assert np.bincount(mine.ravel(), minlength=rounds).tolist() == [slots] * rounds
    # Different rounds, in order of time.
    assert (np.diff(mine, axis=1) > 0).all()


def test_a_shifted_block_covers_most_rounds_only():
    """The reject arm: any T tickets in a row are not a block."""
    mine = rounds_of(masks(12), np.arange(12) + 6)
    assert np.bincount(mine.ravel(), minlength=12).max() > 1


@given(rounds=st.integers(1, 30), data=st.data())
def test_a_block_is_dealt_like_cards(rounds, data):
    """Every serial of it once, and nobody else's."""
    slots = data.draw(st.integers(1, min(rounds, 30)))
    block = data.draw(st.integers(0, MAX_SERIAL // rounds - 1))
    numbers = np.arange(rounds) + block * rounds
    dealt = [own.serial for own in open_office(masks(rounds, slots), KEY).issue_many(numbers)]
    assert sorted(dealt) == numbers.tolist()


def test_with_one_slot_the_serial_tells_the_round():
    for own in open_office(masks(12), KEY).issue_many(range(100)):
        assert own.rounds == (own.serial % 12,)


def test_methods_without_rounds_of_their_own_number_tickets_as_they_come():
    for survey in (SURVEYS[2], TREE):
        issued = open_office(survey, KEY).issue_many([5, MAX_SERIAL])
        assert [own.serial for own in issued] == [5, MAX_SERIAL]


def test_every_order_of_a_block_is_as_likely():
    """So that who holds some tickets of a block knows no more of the others' than that."""
    dealt = rounds_of(masks(4), range(4 * 6000)).reshape(-1, 4)
    every = [4**3 * a + 16 * b + 4 * c + d for a, b, c, d in permutations(range(4))]
    counts = np.bincount(dealt @ (4 ** np.arange(3, -1, -1)), minlength=256)[every]
    assert only_counts_fit(counts, [1 / 24] * 24, [[1.3 / 24] * 12 + [0.7 / 24] * 12])


def test_orders_differ_between_blocks_keys_and_surveys():
    survey = masks(20, 2)
    blocks = rounds_of(survey, range(20 * 50)).reshape(50, -1)
    others = [
        rounds_of(survey, range(20), bytes(32)).ravel(),
        rounds_of(masks(20, 2, "t"), range(20)).ravel(),
    ]
    assert len({block.tobytes() for block in [*blocks, *others]}) == 52


def test_every_place_gets_every_round_equally_often():
    """Nobody who chooses when to join chooses a round: 2000 blocks, chi-square at 1e-12."""
    mine = rounds_of(masks(5), range(5 * 2000)).reshape(2000, 5)
    for place in range(5):
        counts = np.bincount(mine[:, place], minlength=5)
        assert only_counts_fit(counts, [0.2] * 5, [[0.1, 0.3, 0.2, 0.2, 0.2]])


@pytest.mark.parametrize("slots", [2, 3])
def test_the_reporters_of_a_round_are_any_of_their_block(slots):
    """All sets of g alike: those who join together, and may be alike, come no oftener."""
    blocks = 4000
    mine = rounds_of(masks(6, slots), range(6 * blocks)).reshape(blocks, 6, slots)
    sets = list(combinations(range(6), slots))
    for t in (0, 3):
        who = (mine == t).any(axis=2)
        code = who @ (1 << np.arange(6))
        counts = [int((code == sum(1 << i for i in each)).sum()) for each in sets]
        assert sum(counts) == blocks
        assert counts_fit(counts, [1 / len(sets)] * len(sets))
    # The reject arm: windows of neighbours.
    windows = [sorted((i + j) % 6 for j in range(slots)) for i in range(6)]
    aimed = [blocks // 6 * (list(each) in windows) for each in sets]
    assert not counts_fit(aimed, [1 / len(sets)] * len(sets))


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_any_set_will_do_once_the_order_is_random(monkeypatch, slots):
    """Every order of a block against every set of rounds, none left to chance: whatever the set is,
    the reporters of a round are all sets of people equally often; whatever the order is, a person's
    rounds are all sets of rounds."""
    orders = np.array(list(permutations(range(4))))
    sets = list(combinations(range(4), slots))

    def dealt(orders: np.ndarray) -> np.ndarray:
        """By set of rounds, block, person and slot."""
        monkeypatch.setattr("sudare.counting._tickets._orders", lambda key, total, blocks: orders)
        every = []
        for own in sets:
            monkeypatch.setattr(
                TicketOffice, "_sets", lambda self, blocks, own=own: np.tile(own, (blocks.size, 1))
            )
            mine = rounds_of(masks(4, slots), range(4 * len(orders)))
            every.append(mine.reshape(len(orders), 4, slots))
        return np.array(every)

    def alike(who: np.ndarray) -> bool:
        """Whether every set of the people is a round's reporters in as many orders."""
        codes = who @ (1 << np.arange(4))
        counts = [np.count_nonzero(codes == sum(1 << i for i in each)) for each in sets]
        return counts == [len(who) // len(sets)] * len(sets)

    mine = dealt(orders)
    assert all(alike((each == t).any(axis=2)) for each in mine for t in range(4))
    if slots > 1:  # one slot has the set {0} always
        rounds = np.sort((1 << mine).sum(axis=3), axis=0)
        assert (
            rounds == np.unique([sum(1 << t for t in own) for own in sets])[:, None, None]
        ).all()
    # The reject arm: orders that only turn give each person every seat, but pairs only some.
    turned = dealt(np.array([np.roll(range(4), i) for i in range(4)] * 6))
    fair = all(alike((each == t).any(axis=2)) for each in turned for t in range(4))
    assert fair is (slots != 2)


@pytest.mark.parametrize("slots", [1, 6])
def test_people_who_join_in_a_rhythm_are_heard_alike(slots):
    """Of each 24 who join, the first twelve hold a one: every round's interval holds, with reports
    that are all true. With one order for all blocks hardly any would."""
    rounds, blocks = 24, 100
    mine = rounds_of(masks(rounds, slots), range(rounds * blocks))
    held = np.arange(rounds * blocks) % rounds < 12

    def missed(mine: np.ndarray) -> int:
        heard = np.bincount(mine.ravel(), minlength=rounds)
        ones = np.bincount(mine[held].ravel(), minlength=rounds)
        low, high = binomial_interval(heard, ones, 1.0, 0.05 / rounds)
        return int(((low > 0.5) | (high < 0.5)).sum())

    assert missed(mine) == 0
    assert missed(np.tile(mine[:rounds], (blocks, 1))) >= 12


def test_who_holds_tickets_of_a_block_knows_what_is_left_of_it():
    """Taking tickets until one has the wanted round, and no more of that block: one in (T + 1)/2
    then has it, instead of one in T. More is not to be had."""
    mine = rounds_of(masks(6), range(6 * 3000)).reshape(3000, 6)
    taken = np.argmax(mine == 2, axis=1) + 1
    assert 3000 / taken.sum() == pytest.approx(2 / 7, rel=0.03)
    assert (np.bincount(taken)[1:] > 400).all()


def test_sets_of_rounds_vary():
    mine = rounds_of(masks(5, 2), range(5 * 2000))
    counts = np.bincount(mine[:, 0] * 5 + mine[:, 1], minlength=25)
    pairs = [5 * a + b for a, b in combinations(range(5), 2)]
    assert counts_fit(counts[pairs], [0.1] * 10)


TREE = Survey(name="t", rounds=13, epsilon=1.0, method="tree", changes=1)


def test_levels_are_uniform_and_independent():
    levels = np.array([own.level for own in open_office(TREE, KEY).issue_many(range(20000))])
    assert only_counts_fit(np.bincount(levels), [0.25] * 4, [[0.3, 0.2, 0.25, 0.25]])
    pairs = np.bincount(levels[::2] * 4 + levels[1::2], minlength=16)
    assert counts_fit(pairs, [1 / 16] * 16)


SURVEYS = [
    Survey(name="g", rounds=13, epsilon=1.0),
    masks(13, 4),
    Survey(name="r", rounds=13, epsilon=1.0, method="rappor"),
    TREE,
]


@pytest.mark.parametrize("survey", SURVEYS, ids=lambda survey: survey.method)
def test_cells_are_the_tickets_own(survey):
    office = open_office(survey, KEY)
    numbers = [0, 1, 12, 13, 14, 1000, last_number(13), 5, 5]
    for own in office.issue_many(numbers):
        mine = [t for t in range(13) if own.slot_of(survey, t) is not None]
        assert [own.slot_of(survey, t) for t in mine] == list(range(own.slots(survey)))
        cells = office.cells([own.serial] * (len(mine) + 2), [*range(len(mine) + 1), -1]).tolist()
        assert cells[-2:] == [-1, -1]
        if survey.method == "tree":
            first = sum(13 >> lower for lower in range(own.level))
            assert cells[:-2] == [first + i for i in range(13 >> own.level)]
            assert mine == [(i + 1) * 2**own.level - 1 for i in range(13 >> own.level)]
        else:
            assert cells[:-2] == mine


@pytest.mark.parametrize("survey", SURVEYS, ids=lambda survey: survey.method)
def test_many_at_once_are_as_one_by_one(survey):
    office = open_office(survey, KEY)
    numbers = np.random.default_rng(0).integers(0, last_number(13), 60)
    together = office.issue_many(numbers)
    assert together == [office.issue(int(number)) for number in numbers]
    assert together == open_office(survey, KEY).issue_many(numbers.tolist())
    serials, slots = [own.serial for own in together], np.arange(60) % 15
    cells = [office.cells([s], [j])[0] for s, j in zip(serials, slots, strict=True)]
    assert office.cells(serials, slots).tolist() == cells
    assert office.issue_many([]) == []
    assert office.cells([], []).tolist() == []


def test_batches_larger_than_the_memory_allowed(monkeypatch):
    survey = masks(7, 3)
    expected = rounds_of(survey, range(0, 700, 3))
    for words in (1, 7, 20):
        monkeypatch.setattr("sudare.counting._tickets._MOST_WORDS", words)
        assert (rounds_of(survey, range(0, 700, 3)) == expected).all()


def test_marks_are_worth_nothing_elsewhere():
    survey = masks(13, 4)
    office = open_office(survey, KEY)
    issued = office.issue_many([3, 4, last_number(13)])
    serials, marks = [own.serial for own in issued], [own.mark for own in issued]
    assert len(set(marks)) == 3
    assert office.authentic(serials, b"".join(marks)).tolist() == [True] * 3
    # Swapped, of another survey, of another key.
    assert office.authentic(serials, marks[1] + marks[0] + marks[2]).tolist() == [
        False,
        False,
        True,
    ]
    for other in (open_office(masks(13, 4, "t"), KEY), open_office(survey, bytes(32))):
        assert not other.authentic(serials, b"".join(marks)).any()


def test_a_mark_with_any_bit_changed_is_refused():
    office = open_office(masks(13, 4), KEY)
    own = office.issue(9)
    mark = own.mark
    forged = b"".join(
        bytes(b ^ (1 << bit) * (i == place) for i, b in enumerate(mark))
        for place in range(16)
        for bit in range(8)
    )
    assert not office.authentic([own.serial] * 128, forged).any()
    assert not office.authentic([own.serial], bytes(16)).any()
    assert office.authentic([own.serial], mark).all()


def test_serials_never_issued_are_not_authentic_and_spoil_no_batch():
    office = open_office(masks(13, 4), KEY)
    good = office.issue(1)
    batch = unpack(
        Report(2**64 - 1, 0, 1, bytes(16)).pack()
        + Report(good.serial, 0, 1, good.mark).pack()
        + Report(2**48, 0, 1, good.mark).pack()
    )
    assert office.authentic(batch.serials, batch.marks).tolist() == [False, True, False]
    # A mark is not enough: beyond the last serial nothing is issued.
    with pytest.raises(InvalidInput, match="Expected numbers between 0 and"):
        office.issue(last_number(13) + 1)
    with pytest.raises(InvalidInput, match="Expected serials between 0 and"):
        office.cells(batch.serials, batch.slots)


@pytest.mark.parametrize(
    "serials", [[0.5], ["1"], [None], [[1, 2]], [[1], [1, 2]], 3, [True], [10**30], [float("nan")]]
)
def test_serials_that_are_none(serials):
    office = open_office(masks(13, 4), KEY)
    for use in (
        lambda: office.issue_many(serials),
        lambda: office.authentic(serials, bytes(16)),
        lambda: office.cells(serials, [0]),
        lambda: office.cells([0], serials),
    ):
        with pytest.raises(InvalidInput, match="whole numbers"):
            use()


@pytest.mark.parametrize("marks", [b"", b"abc", bytes(8), bytes(15), bytes(17), bytes(32)])
def test_marks_of_the_wrong_length(marks):
    with pytest.raises(InvalidInput, match="16 bytes of mark for each serial"):
        open_office(masks(13, 4), KEY).authentic([1], marks)


def test_slots_and_serials_go_together():
    with pytest.raises(InvalidInput, match="as many slots as serials"):
        open_office(masks(13, 4), KEY).cells([1, 2], [0])


def test_slots_far_beyond():
    for survey in SURVEYS:
        office = open_office(survey, KEY)
        wild = np.array([2**64 - 1, 2**63, 2**32], dtype=np.uint64)
        assert office.cells([1, 2, 3], wild).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), "x" * 32, None])
def test_keys_are_32_bytes(key):
    with pytest.raises(InvalidInput, match="32 secret bytes"):
        open_office(masks(3), key)


def test_an_office_does_not_show_its_keys():
    office = open_office(masks(3), KEY)
    assert repr(office) == str(office) == "TicketOffice('s')"


def test_one_round_and_a_million():
    assert rounds_of(masks(1), [0, 1, MAX_SERIAL]).tolist() == [[0]] * 3
    for slots in (1, 3):
        office = open_office(masks(1_000_000, slots), KEY)
        own = office.issue_many([0, 1, 999_999, last_number(1_000_000)])
        assert len({each.serial for each in own}) == 4
        for each in own:
            cells = office.cells([each.serial] * slots, range(slots))
            assert cells.tolist() == list(each.rounds)


def test_tickets_travel_as_json():
    for own in open_office(masks(13, 4), KEY).issue_many([0, last_number(13)]):
        text = msgspec.json.encode(own)
        assert msgspec.json.decode(text, type=Ticket) == own


def test_golden_ticket():
    """A change here makes every ticket in use worthless."""
    own = open_office(masks(13, 4), KEY).issue(100)
    assert (own.serial, own.mark.hex(), own.rounds) == GOLDEN


GOLDEN = (100, "a6e77eb8d4ee83c6ac6d80b7b6b44a56", (4, 5, 7, 12))
