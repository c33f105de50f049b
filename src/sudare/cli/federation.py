"""Commands of a federation: write its files, answer a question, start Flower quietly."""

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from sudare.cli.console import out
from sudare.cli.options import StudyFile
from sudare.foundations import checks

federation = typer.Typer(help="Run a study over a federation engine; each node its own master.")


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    app.add_typer(federation, name="federation", no_args_is_help=True)


@federation.command("init")
def init(
    study: StudyFile = Path("study.toml"),
    app: Annotated[Path, typer.Option(help="Folder for the Flower app.")] = Path("app"),
    node: Annotated[Path, typer.Option(help="Where to write the node's configuration.")] = Path(
        "node.toml"
    ),
    party: Annotated[str, typer.Option(help="Your organisation's name.")] = "Hospital A",
    data: Annotated[str, typer.Option(help="CSV or Parquet file of the node's rows.")] = "data.csv",
    pool: Annotated[
        bool, typer.Option("--pool", help="Carry a pool: the node has its plan in pool.toml.")
    ] = False,
) -> None:
    """Write the app that the server runs, and a node's own configuration.

    The app folder is for whoever starts runs, the configuration for each organisation.
    """
    from sudare.federation import write_app, write_node
    from sudare.study import read_study

    described = read_study(study)
    if node.exists():
        raise checks.InvalidInput(f"{node} exists: choose another place with --node")
    plan = "pool.toml" if pool else ""
    written = [*write_app(app, described, pool=pool), *write_node(node, party, data, pool=plan)]
    for path in written:
        out.print(f"Wrote {path}")
    out.print(f"The server asks under the terms in {app}/pyproject.toml; each node checks them.")
    if pool:
        out.print(f"Each node needs the plan, {plan}, beside its configuration: sudare pool new")


@federation.command("answer")
def answer(
    node: Annotated[Path, typer.Argument(help="The node's configuration.", metavar="NODE.toml")],
) -> None:
    """Answer one question: bytes on standard input, bytes on standard output.

    For an engine that runs as another user than the one who may read the data.
    """
    from sudare.federation import LARGEST_QUESTION
    from sudare.federation import answer as made

    question = sys.stdin.buffer.read(LARGEST_QUESTION + 1)
    # Whoever may ask sees standard error too, and a library's warning tells of some numbers.
    with warnings.catch_warnings(action="ignore"):
        sys.stdout.buffer.write(made(question, node))
    sys.stdout.buffer.flush()


@federation.command(
    "flower", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def flower(
    words: typer.Context,
    node: Annotated[
        Path | None, typer.Option(help="For flower-supernode: the node's configuration.")
    ] = None,
) -> None:
    """Run a Flower command with its telemetry, update checks and installations switched off.

    [bold]Example:[/bold] sudare federation flower flwr run app hospitals --stream
    """
    from sudare.federation import NODE_VARIABLE, read_node
    from sudare.federation.flower import quiet_environment

    if not words.args:
        raise checks.InvalidInput("Expected a command of Flower, such as flwr or flower-supernode")
    environment = quiet_environment(os.environ)
    if node is not None:
        read_node(node)  # a mistake in it is told now, not at the first question
        environment[NODE_VARIABLE] = str(node.absolute())
    sys.stdout.flush()
    try:
        os.execvpe(words.args[0], words.args, environment)
    except FileNotFoundError:
        raise checks.InvalidInput(
            f"{words.args[0]!r} is not installed here: pip install 'sudare[flower]'"
        ) from None
