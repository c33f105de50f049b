"""All commands by name, without importing any: a module is imported when its command runs.

Listing commands, `--version` and shell completion of a command's name need names and one line of
help only. These stand in `COMMANDS`; a test holds them equal to what the modules say themselves.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from sudare.cli.console import on_interrupt


class Listed(NamedTuple):
    """A command that has not been imported: its module in this room, and its one line of help."""

    module: str
    help: str


COMMANDS = {
    "demo": Listed(
        "tour",
        "A tour with made-up people: learn together, count, audit. Takes about a minute.",
    ),
    "init": Listed(
        "project",
        "Lay out a folder for a study: your key, whom you trust, and what the commands take in it.",
    ),
    "account": Listed(
        "claims", "Add up what several releases about the same people cost together."
    ),
    "audit": Listed(
        "claims",
        "Try to refute a privacy claim by running the mechanism on two neighbouring inputs.",
    ),
    "collect": Listed(
        "collector",
        "Collect a survey's reports over HTTP, publish every round, show it all on a dashboard.",
    ),
    "recount": Listed("recount", "Count retained reports again, from their files alone."),
    "release": Listed(
        "releases",
        "Publish one private, signed release of your rows; the ledger is charged first.",
    ),
    "approve": Listed(
        "signing", "Approve a release as the second person, before the ledger is charged."
    ),
    "resign": Listed(
        "signing",
        "Sign a kept release again, for a lost key or a wrong name: the same numbers, at no cost.",
    ),
    "verify": Listed(
        "releases", "Check releases: who signed, for which study, and whether the price adds up."
    ),
    "explain": Listed("releases", "Say in words what a release holds and what it promises."),
    "blend": Listed(
        "models", "Blend verified releases with your own rows into a model that stays with you."
    ),
    "predict": Listed("models", "Predict for new rows; writes one line for each, in their order."),
    "report": Listed(
        "models",
        "Write a report for people: what was blended, what it gained, what was promised to whom.",
    ),
    "describe": Listed(
        "descriptions",
        "A table 1 of everybody's rows, from releases that have been paid for: no further ε.",
    ),
    "estimate": Listed(
        "estimates",
        "A model of everybody's rows with honest intervals, from releases that have been paid for.",
    ),
    "evaluate": Listed(
        "evaluation",
        "How good a model is on labelled rows: each measure with a bootstrap interval.",
    ),
    "export": Listed(
        "exports", "Write a model for other programs: a tidy CSV of every term, or an ONNX graph."
    ),
    "survey": Listed(
        "collector", "Look after a survey whose collector is stopped, or shares PostgreSQL."
    ),
    "keys": Listed("people", "Make and show a key that signs your releases."),
    "trust": Listed("people", "Decide whose releases to accept."),
    "study": Listed("studies", "Write and check the public contract of a study."),
    "ledger": Listed(
        "setup", "Open, show, export, check and rekey the privacy budget of data sets."
    ),
    "federation": Listed(
        "federation", "Run a study over a federation engine; each node its own master."
    ),
    "pool": Listed(
        "pool",
        "One noise for everybody: sum what all parties know, and nobody sees a part of it.",
    ),
    "plan": Listed(
        "counting", "Find out beforehand what a count, or learning together, will be worth."
    ),
    "simulate": Listed(
        "counting",
        "Made-up people: run a count on them, in here or over HTTP; write a hospital's file.",
    ),
}


PROJECT = "sudare.toml"
"""Says what commands take in a folder (`sudare.cli.project`)."""


@cache
def _registered(module: str) -> Any:
    """What a module registers, as commands by name."""
    whole = typer.Typer(callback=lambda: None, rich_markup_mode="rich")
    import_module(f"sudare.cli.{module}").register(whole)
    group = typer.main.get_command(whole)
    assert isinstance(group, TyperGroup)
    for each in group.commands.values():
        _tell_what_was_taken(each)
    return group.commands


def _tell_what_was_taken(command: Any) -> None:
    """Let a command say what it takes from the folder's project, just before it runs."""
    if isinstance(command, TyperGroup):
        for each in command.commands.values():
            _tell_what_was_taken(each)
        return
    invoke = command.invoke

    def told(ctx: Any) -> Any:
        if ctx.default_map:
            from sudare.cli.project import say_what_was_taken

            say_what_was_taken(ctx)
        return invoke(ctx)

    command.invoke = told


class _Imported(Mapping[str, Any]):
    """The commands themselves; asking for one imports its module."""

    def __getitem__(self, name: str) -> Any:
        return _registered(COMMANDS[name].module)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyGroup(TyperGroup):
    """The group of `COMMANDS`: it lists them from the table, and imports the one that is run."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Imported()  # type: ignore[assignment]  # it is read only

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What is needed to list a command."""
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(
            cmd_name, help=COMMANDS[cmd_name].help, rich_markup_mode=self.rich_markup_mode
        )

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what it does not say itself when it is stopped is said here."""
        with on_interrupt(lambda: "Nothing more was done."):
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is going to run, with what the project of this folder has for it."""
        name, listed, rest = super().resolve_command(ctx, args)
        if listed is None:
            return name, None, rest
        if Path(PROJECT).is_file() and not ctx.resilient_parsing:
            from sudare.cli.project import read_project

            ctx.default_map = read_project(Path(PROJECT)).defaults()
        return name, self.commands[name or ""], rest
