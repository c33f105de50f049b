"""Settings from files, options and the environment."""

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sudare.collector._settings import Secrets, Settings, read_secrets, read_settings
from sudare.foundations.checks import InvalidInput

NOTHING: dict[str, str] = {}


def test_options_come_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "collector.toml"
    file.write_text('survey = "s.toml"\nport = 9000\nbeta = 0.1\nproxies = ["10.0.0.0/8"]\n')
    told = read_settings(file, {"port": 9100, "beta": None}, NOTHING)
    assert (told.port, told.beta, told.proxies) == (9100, 0.1, ("10.0.0.0/8",))
    # Files that a file names lie beside it.
    assert told.survey == str(tmp_path / "s.toml")
    assert told.store == "collector.db"


def test_where_the_store_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "collector.toml"
    file.write_text('survey = "s.toml"\nstore = "counts.db"\n')
    environment = {"SUDARE_STORE": "postgresql://a:secret@db/x"}
    assert read_settings(file, {}, NOTHING).store == str(tmp_path / "counts.db")
    assert read_settings(file, {}, environment).store == "postgresql://a:secret@db/x"
    assert read_settings(file, {"store": "mine.db"}, environment).store == "mine.db"


def test_every_setting_can_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "collector.toml"
    whole = msgspec.to_builtins(Settings(survey="/s.toml", store="postgresql://db/x", workers=2))
    lines = [
        f"{name} = {msgspec.json.encode(value).decode()}"
        for name, value in whole.items()
        if value is not None
    ]
    file.write_text("\n".join(lines))
    assert msgspec.to_builtins(read_settings(file, {}, NOTHING)) == whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 70000}, "port=70000 in 0 … 65535"),
        ({"port": "x"}, "port"),
        ({"health_port": -1}, "health_port"),
        ({"workers": 0}, "workers=0 >= 1"),
        ({"workers": 2}, "PostgreSQL"),
        ({"beta": 1.5}, "beta=1.5"),
        ({"beta": 0}, "beta"),
        ({"grace_seconds": -1}, "grace_seconds"),
        ({"round_seconds": 0}, "round_seconds"),
        ({"late_seconds": -1}, "late_seconds"),
        ({"expected_users": 0}, "expected_users"),
        ({"proxies": ["x"]}, "proxies"),
        ({"tickets_per_minute": -1}, "tickets_per_minute"),
        ({"tickets_burst": 0}, "tickets_burst"),
        ({"max_streams": 0}, "max_streams"),
        ({"body_seconds": 0}, "body_seconds"),
        ({"log_format": "xml"}, "log_format"),
        ({"log_level": "loud"}, "log_level"),
        ({"host": ""}, "host"),
        ({"survey": " "}, "survey"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_what_is_wrong_is_said_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as told:
        read_settings(None, {"survey": "s.toml"} | options, NOTHING)
    assert message in str(told.value)


def test_a_survey_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Expected a survey's TOML file"):
        read_settings(None, {"survey": None}, NOTHING)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Cannot read"):
        read_settings(tmp_path / "none.toml", {}, NOTHING)
    for text in ("port =", "\x00", "a" * 10, "[" * 5000):
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(InvalidInput, match="Expected TOML"):
            read_settings(tmp_path / "bad.toml", {}, NOTHING)


def test_secrets_come_from_the_environment() -> None:
    key = bytes(range(32))
    texts = base64.urlsafe_b64encode(key).decode(), base64.urlsafe_b64encode(key).decode()[:43]
    for text in texts:
        told = read_secrets({"SUDARE_COLLECTOR_KEY": text, "SUDARE_OPERATOR_TOKEN": "t" * 20})
        assert (told.key, told.token) == (key, "t" * 20)
    assert read_secrets({}) == Secrets()
    assert read_secrets({"SUDARE_OPERATOR_TOKEN": "", "SUDARE_COLLECTOR_KEY": ""}) == Secrets()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SUDARE_COLLECTOR_KEY", "short"),
        ("SUDARE_COLLECTOR_KEY", "A" * 42),
        ("SUDARE_COLLECTOR_KEY", "!" * 43),
        ("SUDARE_COLLECTOR_KEY", "ä" * 43),
        ("SUDARE_OPERATOR_TOKEN", "short"),
        ("SUDARE_OPERATOR_TOKEN", "x" * 20 + "\n"),
        ("SUDARE_OPERATOR_TOKEN", "two words that are long enough"),
    ],
)
def test_secrets_that_are_none_are_not_shown(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=name) as told:
        read_secrets({name: value})
    assert value not in str(told.value)


def test_secrets_and_passwords_are_not_shown() -> None:
    secrets = Secrets(b"k" * 32, "the-token")
    assert "kkk" not in repr(secrets)
    assert "the-token" not in repr(secrets)
    for url in (
        "postgresql://user:pa%40ss@db:5432/counts?options=x&password=pass",
        "postgresql://user:p@ss@db:5432/counts",
    ):
        shown = Settings(survey="s", store=url).store_shown
        assert shown == "postgresql://db:5432/counts"
    assert Settings(survey="s", store="counts.db").store_shown == "counts.db"
