"""A folder for one study: `sudare init` lays it out, and commands run inside it need fewer words.

`sudare.toml` in the current folder says what the commands take where nothing else is said. What is
said on the command line wins. It is looked for in the current folder only.
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from sudare.cli.console import err, out
from sudare.cli.lazy import PROJECT
from sudare.cli.options import write_text
from sudare.foundations import checks
from sudare.storage.files import read_bytes, read_text, toml_value


class Project(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the commands in a folder take where nothing else is said."""

    party: str
    data: str = "rows.csv"
    study: str = "study.toml"
    ledger: str = "ledger.db"
    key: str = "key.json"
    trust: str = "trust.toml"
    releases: str = "releases"
    model: str = "model.json"

    def defaults(self) -> dict[str, dict[str, Any]]:
        """For each command, its parameters and what they are."""
        own = {"key": self.key, "trust": self.trust, "study": self.study}
        charged = {"data": self.data, "url": self.ledger}
        received = {"releases": [self.releases]}
        place = {"place": self.releases}
        named = {"party": self.party, "to": self.releases}
        # Without a study, signatures and prices can be verified all the same.
        signed = own if Path(self.study).exists() else {"key": self.key, "trust": self.trust}
        return {
            "release": own | charged | named,
            "resign": {
                "url": self.ledger,
                "key": self.key,
                "party": self.party,
                "to": self.releases,
            },
            "verify": signed | {"places": [self.releases]},
            "explain": own,
            "describe": own | received,
            "blend": own | charged | received | {"party": self.party, "to": self.model},
            "report": {"model": self.model},
            "pool": {"new": own | {"party": self.party}, "run": own | charged | place},
            "ledger": {
                "open": charged | {"study": self.study},
                **{each: {"url": self.ledger} for each in ("show", "policy", "rekey")},
                "export": {"url": self.ledger, "key": self.key, "party": self.party},
            },
            "study": {"check": {"path": self.study}},
            "trust": {each: {"trust": self.trust} for each in ("add", "list", "remove")},
            "keys": {"show": {"path": self.key}},
        }

    def to_toml(self) -> str:
        """The file, with what it is for."""
        lines = [
            "# What sudare's commands take in this folder where nothing else is said.",
            "# Paths are from this folder; releases may be any folder or address that all share.",
            *(f"{name} = {toml_value(getattr(self, name))}" for name in self.__struct_fields__),
        ]
        return "\n".join(lines) + "\n"


def read_project(path: Path) -> Project:
    """The project in a file."""
    try:
        return msgspec.convert(tomllib.loads(read_text(path)), Project)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as problem:
        known = ", ".join(Project.__struct_fields__)
        raise checks.InvalidInput(f"{path}: {problem}. It may say {known}") from None


def say_what_was_taken(ctx: Any) -> None:
    """What a command got from the project, where its own default would have been another."""
    taken = [
        f"{parameter.name} {_shown(ctx.params[parameter.name])}"
        for parameter in ctx.command.params
        if ctx.get_parameter_source(parameter.name).name == "DEFAULT_MAP"
        and _shown(ctx.params[parameter.name]) != _shown(parameter.default)
    ]
    if taken:
        words = ", ".join(taken).replace("url ", "ledger ").replace("to ", "out ")
        err.print(f"From {PROJECT}: {words}", style="dim", soft_wrap=True)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def register(app: typer.Typer) -> None:
    """Add this command to the whole."""
    app.command()(init)


def init(
    party: Annotated[
        str, typer.Option(help="Your organisation's name, as the others will see it.")
    ],
    folder: Annotated[Path, typer.Argument(help="Where; it is made if it is not there.")] = Path(),
    data: Annotated[str, typer.Option(help="Your rows; they may come later.")] = "rows.csv",
    study: Annotated[
        Path | None, typer.Option(help="The study that was agreed on; it is copied.")
    ] = None,
    releases: Annotated[
        str, typer.Option(help="The folder or address that all parties share.")
    ] = "releases",
) -> None:
    """Lay out a folder for a study: your key, whom you trust, and what the commands take in it.

    Inside it 'sudare release', 'verify', 'blend' and 'report' need no further words.

    [bold]Example:[/bold] sudare init heart --party "Clinic A" --study heart.toml
    """
    from sudare.exchange import Keyring, load_key, new_key

    if (folder / PROJECT).exists():
        raise checks.InvalidInput(f"{folder / PROJECT} exists: the folder is laid out already")
    text = None if study is None else read_bytes(study).decode("utf-8", "replace")
    public = re.sub(r"[/\\\0]", "-", party).strip(". ") + ".pub"
    Keyring({party: new_key().public})  # a name that will not do is refused first
    project = Project(party=party, data=data, releases=releases)
    made = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot make {folder}: {problem.strerror}") from None
    if not (folder / project.key).exists():
        new_key().save(folder / project.key)
        made.append(f"{project.key}    your secret key: keep a copy, show it to nobody")
    key = load_key(folder / project.key).public
    write_text(folder / public, key.to_text() + "\n")
    made.append(f"{public}    your public key, for the others")
    if not (folder / project.trust).exists():
        write_text(folder / project.trust, Keyring({party: key}).to_toml())
        made.append(f"{project.trust}    whose releases you accept: sudare trust add *.pub")
    if text is not None:
        write_text(folder / project.study, text)
        made.append(f"{project.study}    what was agreed on")
    write_text(folder / PROJECT, project.to_toml())
    made.append(f"{PROJECT}    what the commands take in this folder")
    for each in made:
        out.print(f"Wrote {folder / each}", soft_wrap=True)
    out.print(f"Your fingerprint, to read to others: {key.spoken}", soft_wrap=True)
    first = "" if text is not None else "sudare study new COLUMNS; "
    out.print(
        f"Next, in {folder.absolute().name}: {first}sudare ledger open NAME --epsilon 4; "
        "sudare release",
        soft_wrap=True,
    )
