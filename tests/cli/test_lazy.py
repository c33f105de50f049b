"""Commands are listed without being imported, and what is listed is what they say themselves."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from sudare.cli import app
from sudare.cli.lazy import COMMANDS
from tests.support import ROOT
from tests.support.commands import command

GOLDEN = ROOT / "tests" / "golden"
EXTRAS = {
    "dp_accounting", "fsspec", "granian", "narwhals", "opendp", "prometheus_client", "pyarrow",
    "scipy", "sklearn", "starlette",
}  # fmt: skip
SLOW = EXTRAS | {"cryptography", "httpx", "joserfc", "numpy", "randomgen"}


def imported(folder: Path, *words: str) -> set[str]:
    """The libraries that a command has imported when it ends."""
    code = """if True:
        import json, sys
        sys.argv = ["sudare", *json.loads(sys.argv[1])]
        from sudare.cli import main
        try:
            main()
        finally:
            names = sorted({name.partition(".")[0] for name in sys.modules})
            print(json.dumps(names), file=sys.stderr)
    """
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(words)],
        capture_output=True, text=True, cwd=folder, check=True,
    )  # fmt: skip
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["keys", "--help"]])
def test_help_and_version_import_nothing_slow(tmp_path: Path, words: list[str]) -> None:
    assert not imported(tmp_path, *words) & SLOW


def test_the_version_alone_needs_no_parser(tmp_path: Path) -> None:
    assert "pydantic" not in imported(tmp_path, "--version")


@pytest.mark.parametrize("name", ["learner-1.release", "moments-1.release"])
def test_releases_are_verified_without_learners_and_tables(tmp_path: Path, name: str) -> None:
    words = ["verify", str(GOLDEN / name), "--trust", str(GOLDEN / "keyring-1.toml")]
    loaded = imported(tmp_path, *words)
    assert "joserfc" in loaded
    assert not loaded & EXTRAS - {"scipy"}


def test_what_is_listed_is_what_the_commands_say() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    said = {
        name: " ".join((each.help or "").partition("\n\n")[0].split())
        for name, each in commands.items()
    }
    assert said == {name: each.help for name, each in COMMANDS.items()}


def test_every_command_of_a_module_is_listed() -> None:
    from sudare.cli import lazy

    modules = {each.module for each in COMMANDS.values()}
    registered = {name for module in modules for name in lazy._registered(module)}
    assert registered == set(COMMANDS)


def test_an_unknown_command_is_refused_with_a_guess(tmp_path: Path) -> None:
    done = command(tmp_path, "relaese")
    assert done.code == 2
    assert "release" in done.err


def test_stopping_any_command_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sudare.exchange.new_key", interrupt)
    done = command(tmp_path, "keys", "new", "key.json")
    assert (done.code, done.out) == (130, "")
    assert done.err == "Stopped. Nothing more was done.\n"


def completed(folder: Path, line: str, word: int) -> list[str]:
    """What a shell is offered after these words."""
    asked = {"_SUDARE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(word)}
    done = subprocess.run(
        [Path(sys.executable).with_name("sudare")],
        env=os.environ | asked, capture_output=True, text=True, cwd=folder, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_a_shell_completes_commands_and_options(tmp_path: Path) -> None:
    assert completed(tmp_path, "sudare re", 1) == [
        "recount",
        "release",
        "resign",
        "report",
    ]
    assert completed(tmp_path, "sudare ledger o", 2) == ["open"]
    assert completed(tmp_path, "sudare release --un", 2) == ["--unattended"]


def test_the_script_for_a_shell_can_be_had(tmp_path: Path) -> None:
    done = command(tmp_path, "--show-completion", "bash")
    assert (done.code, done.err) == (0, "")
    assert "_SUDARE_COMPLETE=complete_bash" in done.out
    subprocess.run(["bash", "-n"], input=done.out, text=True, check=True)
