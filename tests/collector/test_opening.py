"""Opening a store: what is set up, what is taken over, what is refused."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sudare.collector import Store, StoreUnavailable, open_store
from sudare.collector._opening import open_collector, open_existing
from sudare.collector._settings import Secrets, Settings
from sudare.foundations.checks import InvalidInput

SURVEY = 'name = "At home"\nrounds = 5\nepsilon = 1.0\n'


def settings(folder: Path, text: str = SURVEY, **options: Any) -> Settings:
    (folder / "s.toml").write_text(text)
    known: dict[str, Any] = {
        "survey": str(folder / "s.toml"),
        "store": str(folder / "c.db"),
        "round_seconds": 60.0,
    }
    return Settings(**(known | options))


def test_a_survey_without_a_start_starts_now_and_keeps_it(tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    opened = open_collector(settings(tmp_path), Secrets())
    start = opened.survey.start
    assert start is not None
    assert before <= start <= datetime.now(UTC) + timedelta(seconds=1)  # rounded to seconds
    assert opened.started_now
    opened.collector.close()
    again = open_collector(settings(tmp_path), Secrets())
    again.collector.close()
    assert again.survey == opened.survey
    assert not again.started_now


def test_it_needs_to_know_how_long_rounds_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="round_seconds"):
        open_collector(settings(tmp_path, round_seconds=None), Secrets())


def test_tokens(tmp_path: Path) -> None:
    first = open_collector(settings(tmp_path), Secrets())
    assert first.token is None
    assert not first.collector.has_token()
    first.collector.close()
    made = open_collector(settings(tmp_path), Secrets(), make_token=True)
    assert made.token is not None
    assert made.collector.check_token(made.token)
    made.collector.close()
    again = open_collector(settings(tmp_path), Secrets(), make_token=True)
    assert again.token is None  # shown once
    assert again.collector.check_token(made.token)
    again.collector.close()
    given = open_collector(settings(tmp_path), Secrets(token="from the environment"))
    assert given.token is None
    assert given.collector.check_token("from the environment")
    assert not given.collector.check_token(made.token)
    given.collector.close()


def test_the_collectors_key(tmp_path: Path) -> None:
    open_collector(settings(tmp_path), Secrets(b"k" * 32)).collector.close()
    for wrong in (Secrets(), Secrets(b"x" * 32)):
        with pytest.raises(InvalidInput):
            open_collector(settings(tmp_path), wrong)
    # The refusals gave the store free.
    open_collector(settings(tmp_path), Secrets(b"k" * 32)).collector.close()


def test_another_surveys_store_is_refused(tmp_path: Path) -> None:
    open_collector(settings(tmp_path), Secrets()).collector.close()
    other = SURVEY.replace("At home", "Elsewhere")
    with pytest.raises(InvalidInput, match="At home"):
        open_collector(settings(tmp_path, other), Secrets())


def test_times_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="grace"):
        open_collector(settings(tmp_path, grace_seconds=61.0), Secrets())
    opened = open_collector(settings(tmp_path, grace_seconds=1.0, late_seconds=90.0), Secrets())
    assert (opened.schedule.grace, opened.schedule.late) == (1.0, 90.0)
    opened.collector.close()


def test_retention(tmp_path: Path) -> None:
    opened = open_collector(settings(tmp_path, retain=str(tmp_path / "raw")), Secrets())
    opened.collector.close()
    assert (tmp_path / "raw").is_dir()


def test_a_refused_first_start_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="round_seconds"):
        open_collector(settings(tmp_path, round_seconds=None), Secrets())
    with pytest.raises(InvalidInput, match="grace"):
        open_collector(settings(tmp_path, grace_seconds=600.0), Secrets())
    assert [each.name for each in tmp_path.iterdir()] == ["s.toml"]
    open_collector(settings(tmp_path), Secrets()).collector.close()


def test_a_refused_later_start_leaves_all_as_it_was(tmp_path: Path) -> None:
    open_collector(settings(tmp_path), Secrets()).collector.close()
    with pytest.raises(InvalidInput, match="belongs to the survey"):
        open_collector(settings(tmp_path, SURVEY.replace("At home", "Else")), Secrets())
    opened = open_collector(settings(tmp_path), Secrets())
    assert not opened.started_now
    opened.collector.close()


def test_a_store_that_is_there_needs_no_survey_file(tmp_path: Path) -> None:
    opened = open_collector(settings(tmp_path), Secrets())
    opened.collector.issue(3)
    opened.collector.close()
    again = open_existing(str(tmp_path / "c.db"), Secrets())
    assert again.survey == opened.survey
    assert again.collector.status().tickets == 3
    again.collector.close()
    with pytest.raises(InvalidInput, match="There is no store"):
        open_existing(str(tmp_path / "none.db"), Secrets())
    assert not (tmp_path / "none.db").exists()
    open_store(str(tmp_path / "bare.db")).close()
    with pytest.raises(InvalidInput, match="holds no survey"):
        open_existing(str(tmp_path / "bare.db"), Secrets())


def test_a_store_that_starts_up_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL refuses connections while it recovers."""
    tries: list[str] = []
    waits: list[float] = []

    def starting(place: str) -> Store:
        tries.append(place)
        if len(tries) < 4:
            raise StoreUnavailable("the database system is starting up")
        return open_store(place)

    monkeypatch.setattr("sudare.collector._opening.open_store", starting)
    monkeypatch.setattr("sudare.collector._opening.time.sleep", waits.append)
    open_collector(settings(tmp_path), Secrets(), patience=60.0).collector.close()
    assert (len(tries), len(waits)) == (4, 3)
    tries.clear()
    with pytest.raises(StoreUnavailable, match="starting up"):
        open_collector(settings(tmp_path), Secrets())
