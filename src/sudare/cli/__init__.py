"""The `sudare` command: parse, call, print.

Exit codes: 0 done; 1 a fault of sudare's own; 2 something to put right in what was asked;
3 done, and the answer is no (an audited claim is false); 4 waiting for others (a pool);
130 stopped by Ctrl-C.
"""

import io
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer
from rich.text import Text

from sudare import __version__
from sudare.cli.console import err
from sudare.cli.lazy import LazyGroup
from sudare.foundations import checks

app = typer.Typer(
    name="sudare",
    cls=LazyGroup,
    help="Learn and count together without anyone seeing anyone's data.",
    epilog="Exit codes: 0 done · 1 a fault of sudare's own · 2 something to put right · "
    "3 done, and the answer is no · 4 waiting for others · 130 stopped.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:  # not alone: main has seen to that
        _print_version()
        raise typer.Exit


def _print_version() -> None:
    print(f"sudare {__version__}")


def main() -> None:
    """Run the command; a mistake, or a disk that fails, becomes one line, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal knows ε
    try:
        try:
            if sys.argv[1:] == ["--version"]:
                _print_version()  # scripts ask often: half the time goes without the parser
            else:
                app(prog_name="sudare")  # also for `python -m sudare`
        finally:
            if sys.stdout:  # None where a shell has closed it
                sys.stdout.flush()
    except checks.SudareError as problem:
        _fail(str(problem))
    except ModuleNotFoundError as problem:
        missing = (problem.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        _fail(f"This needs {missing}, which is not installed: pip install {_EXTRAS[missing]}")
    except BrokenPipeError:
        # The reader of our output has gone: nothing is wrong and nobody is left to tell.
        sys.stderr.close()
        sys.exit(0)
    except OSError as problem:
        with suppress(OSError):
            sys.stdout.close()  # what could not be printed would fail again at the very end
        _fail(f"{problem.filename or 'Cannot print'}: {problem.strerror or 'it cannot be used'}")


_EXTRAS = (
    dict.fromkeys(
        ("dp_accounting", "fsspec", "narwhals", "opendp", "pyarrow", "scipy", "sklearn"),
        "'sudare[learn]'",
    )
    | dict.fromkeys(("granian", "prometheus_client", "starlette"), "'sudare[collect]'")
    | {"onnx": "'sudare[export]'"}
)
"""The libraries of the extras, and how to get them."""


def _fail(problem: str) -> NoReturn:
    with suppress(OSError):
        err.print(Text.assemble(("Error:", "red"), f" {problem}"), soft_wrap=True)
    sys.exit(2)
