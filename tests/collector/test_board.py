"""What anyone may read is made ready once for each change."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from sudare.collector import Round, Status, schedule
from sudare.collector._board import Board, promise
from sudare.collector._messages import Activity, Estimates
from sudare.counting import Survey
from tests.collector.served import survey_of


def round_(number: int, revision: int = 0) -> Round:
    return Round(number, "a", "b", "c", 5, 0.5, 0.4, 0.1, 0.9, None, revision)


def status(**fields: Any) -> Status:
    known: dict[str, Any] = {
        "now": 0.0, "round": 0, "reporters": {0: 3}, "tickets": 0, "refused": {},
        "enrolment": True, "published": 10, "reachable": True,
    }  # fmt: skip
    return Status(**{k: v for k, v in (known | fields).items() if k in Status.__struct_fields__})


class Told(SimpleNamespace):
    rounds: tuple[Round, ...] = ()
    state = status()

    def history(self) -> tuple[Round, ...]:
        return self.rounds

    def status(self) -> Status:
        return self.state


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def survey() -> Survey:
    return survey_of(rounds=10)


@pytest.fixture
def board(told: Told, survey: Survey) -> Board:
    return Board(survey, schedule(survey), told, beta=0.05)


def estimates(board: Board, since: int = 0) -> Estimates:
    return msgspec.json.decode(b"".join(board.estimates(since)), type=Estimates)


def test_new_and_revised_rounds_are_noticed(board: Board, told: Told) -> None:
    assert board.refresh() == []
    told.rounds = (round_(0), round_(1))
    version = board.version
    assert board.refresh() == [round_(0), round_(1)]
    assert board.version > version
    assert board.refresh() == []
    told.rounds = (round_(0), round_(1, 1), round_(2))
    assert board.refresh() == [round_(1, 1), round_(2)]
    assert estimates(board).rounds == [round_(0), round_(1, 1), round_(2)]
    version = board.version
    told.rounds = (*told.rounds,)
    assert board.refresh() == []
    assert board.version == version


def test_readers_get_the_same_bytes(board: Board, told: Told) -> None:
    told.rounds = tuple(round_(t) for t in range(4))
    board.refresh()
    assert board.rounds.chunks()[0].json() is board.rounds.chunks()[0].json()
    assert board.rounds.chunks()[0].csv() is board.rounds.chunks()[0].csv()
    assert board.summary() is board.summary()
    assert estimates(board, 2).rounds == [round_(2), round_(3)]
    assert estimates(board, 9).rounds == []
    told.rounds = (*told.rounds, round_(4))
    before = [*board.estimates()], [*board.csv()], board.summary()
    board.refresh()
    after = [*board.estimates()], [*board.csv()], board.summary()
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_what_comes_next(board: Board, told: Told) -> None:
    upcoming = estimates(board).next
    assert upcoming is not None
    assert upcoming.round == 0
    told.rounds = tuple(round_(t) for t in range(10))
    board.refresh()
    assert estimates(board).next is None


def test_activity_is_told_when_it_changes(board: Board, told: Told) -> None:
    assert board.news() is not None
    assert board.news() is None
    told.state = status(tickets=4, refused={"too_late": 2})
    news = board.news()
    assert news is not None
    assert news.startswith(b"event: activity\ndata: {")
    found = msgspec.json.decode(news.partition(b"data: ")[2], type=Activity)
    assert (found.tickets, found.refused, found.reporters) == (4, {"too_late": 2}, {"0": 3})
    assert board.news() is None


def test_the_plan_is_worked_out_seldom(
    board: Board, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.predict()
    assert board.description().predicted_error is None
    asked = []

    def predict(survey: Survey, users: int) -> float:
        asked.append(users)
        return 0.1

    monkeypatch.setattr("sudare.collector._board.predict_error", predict)
    for tickets in (12_345, 12_399, 12_999, 13_000):
        told.state = status(tickets=tickets)
        board.predict()
    assert asked == [12_000, 13_000]
    predicted = board.description().predicted_error
    assert predicted is not None
    assert (predicted.users, predicted.typical) == (13_000, 0.1)
    assert 0 < predicted.bound <= 1


def test_the_plan_for_expected_people(told: Told, survey: Survey) -> None:
    board = Board(survey, schedule(survey), told, beta=0.05, expected_users=7777)
    board.predict()
    predicted = board.description().predicted_error
    assert predicted is not None
    assert predicted.users == 7777
    assert predicted.typical < predicted.bound


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "a single bit"),
        ({"method": "masks", "slots": 3}, "3 bits"),
        ({"method": "rappor"}, "one bit in every round"),
        ({"method": "tree", "changes": 2}, "a few bits"),
    ],
)
def test_the_promise(fields: dict[str, Any], words: str) -> None:
    text = promise(survey_of(rounds=8, epsilon=1.0, **fields))
    assert words in text
    assert "ε = 1" in text
    assert "at most 2.72" in text
    assert len(text) < 400


def test_what_is_told_is_taken_over_without_reading_all_again(board: Board, told: Told) -> None:
    """Which would hold up every request once there are many rounds."""
    told.rounds = (round_(0), round_(1))
    board.refresh()
    told.rounds = ()
    assert board.refresh([]) == []
    assert board.refresh([round_(1), round_(2)]) == [round_(2)]
    assert board.refresh([round_(0, 1), round_(3)]) == [round_(0, 1), round_(3)]
    assert estimates(board).rounds == [round_(0, 1), round_(1), round_(2), round_(3)]
    assert [*board.rounds] == estimates(board).rounds
    # Something was missed: everything is read.
    told.rounds = (*board.rounds, round_(4), round_(5))
    assert board.refresh([round_(5)]) == [round_(4), round_(5)]
    assert estimates(board).rounds == list(told.rounds)


def test_rounds_that_were_taken_back_are_gone(board: Board, told: Told) -> None:
    told.rounds = (round_(0), round_(1), round_(2))
    board.refresh()
    version = board.version
    told.rounds, told.state = (round_(0),), status(published=1)
    board.refresh([])
    assert estimates(board).rounds == [round_(0)]
    assert board.version > version
    assert len(b"".join(board.csv()).splitlines()) == 2
