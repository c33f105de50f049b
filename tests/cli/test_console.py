import io
import json
import math

import pytest
from rich.console import Console

from sudare.cli import console


def test_json_is_strict_and_infinity_is_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_json({"a": console.number(math.inf), "b": console.number(1.5), "ε": [1]})
    assert json.loads(capsys.readouterr().out) == {"a": "inf", "b": 1.5, "ε": [1]}
    with pytest.raises(ValueError, match="JSON"):
        console.print_json(math.nan)


def test_progress_is_silent_without_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress() as tick:
        tick("working", 1, 2)
        tick("working", 2, 2)
    assert capsys.readouterr().err == ""


def test_a_stage_is_silent_without_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    with console.busy("reading") as pause:
        pause()
    assert capsys.readouterr().err == ""


def test_a_stage_is_said_to_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=screen, force_terminal=True))
    with console.busy("Reading rows.csv"):
        pass
    assert "Reading rows.csv" in screen.getvalue()
