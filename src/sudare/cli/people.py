"""Commands about keys: one's own, and whose releases to accept. Parse, call, print."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.console import AsJson, out, print_json
from sudare.cli.options import TrustFile, write_text
from sudare.foundations import checks
from sudare.storage.files import read_text

if TYPE_CHECKING:
    from sudare.exchange import PublicKey

keys = typer.Typer(help="Make and show a key that signs your releases.")
trusted = typer.Typer(help="Decide whose releases to accept.")


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    app.add_typer(keys, name="keys", no_args_is_help=True)
    app.add_typer(trusted, name="trust", no_args_is_help=True)


@keys.command("new")
def keys_new(
    path: Annotated[Path, typer.Argument(help="Where to write the secret key.")],
    public: Annotated[
        Path | None, typer.Option(help="Also write the public line to this file, for the others.")
    ] = None,
) -> None:
    """Make a signing key. The file is secret; the line printed is for the others.

    [bold]Example:[/bold] sudare keys new key.json --public clinic-a.pub
    """
    from sudare.exchange import new_key

    key = new_key()
    key.save(path)
    out.print(f"Secret key written to {path}: keep it to yourself, and keep a copy.")
    _show(key.public, public)


@keys.command("show")
def keys_show(
    path: Annotated[Path, typer.Argument(help="A key: your secret one, or anybody's public one.")],
    public: Annotated[
        Path | None, typer.Option(help="Also write the public line to this file, for the others.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a key's fingerprint and its public line. The secret is never shown."""
    from sudare.exchange import public_key

    key = public_key(read_text(path))
    if as_json:
        print_json({"fingerprint": key.fingerprint, "spoken": key.spoken, "public": key.to_text()})
        if public is not None:
            write_text(public, key.to_text() + "\n")
        return
    _show(key, public)


def _show(key: "PublicKey", to: Path | None) -> None:
    out.print(
        Text.assemble("Fingerprint, to read to others: ", (key.spoken, "bold")), soft_wrap=True
    )
    if to is not None:
        write_text(to, key.to_text() + "\n")
        out.print(f"Public key written to {to}: hand it to the others.")
        return
    out.print("Public key, to hand to others:")
    print(key.to_text())


@trusted.command("add")
def trust_add(
    words: Annotated[
        list[str],
        typer.Argument(
            help="What you call the party, and its public key (the line, or a file with it); or "
            "several files, each called after its party.",
            metavar="NAME KEY | FILE.pub...",
        ),
    ],
    trust: TrustFile = Path("trust.toml"),
) -> None:
    """Trust a party's key, or those of several, after checking the fingerprints with them.

    [bold]Examples:[/bold] sudare trust add "Clinic A" clinic-a.pub

    sudare trust add "Clinic A.pub" "Clinic B.pub"
    """
    from sudare.exchange import Keyring, load_keyring

    ring = load_keyring(trust) if trust.exists() else Keyring()
    if len(words) == 2 and not (words[0].endswith(".pub") or Path(words[0]).is_file()):
        name, key = words
        line = key.lstrip().startswith("{")
        found = [(name, _theirs("This" if line else key, key if line else read_text(key)))]
    else:
        found = named_keys(words)
    for name, made in found:
        ring = ring.with_key(name, made)
    write_text(trust, ring.to_toml())
    for name, made in found:
        told = f"{trust} now trusts {name!r}. Fingerprint: "
        out.print(Text.assemble(told, (made.spoken, "bold")), soft_wrap=True)
    out.print(f"Compare {'it' if len(found) == 1 else 'each'} with theirs, by phone or in person.")


@trusted.command("list")
def trust_list(trust: TrustFile = Path("trust.toml"), as_json: AsJson = False) -> None:
    """Show whom you trust."""
    from sudare.exchange import load_keyring

    ring = load_keyring(trust)
    if as_json:
        print_json([{"name": name, "fingerprint": key.fingerprint} for name, key in ring])
        return
    table = Table("party", "fingerprint")
    for name, key in ring:
        table.add_row(name, key.spoken)
    out.print(table)


@trusted.command("remove")
def trust_remove(
    name: Annotated[str, typer.Argument(help="What you call the party.")],
    trust: TrustFile = Path("trust.toml"),
) -> None:
    """Trust a party's key no longer: what it signed is refused from now on.

    A model that was blended from its releases stays as it is: blend again without them.
    """
    from sudare.exchange import load_keyring

    ring = load_keyring(trust)
    kept = ring.without(name)
    write_text(trust, kept.to_toml())
    out.print(f"{trust} no longer trusts {name!r}; it holds {len(kept)} keys.")


def named_keys(files: list[str]) -> list[tuple[str, "PublicKey"]]:
    """Public keys, each by the name of its file."""
    return [(Path(each).stem, _theirs(each, read_text(each))) for each in files]


def _theirs(where: str, text: str) -> "PublicKey":
    """Somebody's public key; their secret one is refused, and must be known to have leaked."""
    from sudare.exchange import is_secret, public_key

    key = public_key(text)
    if is_secret(text):
        raise checks.InvalidInput(
            f"{where} is a secret key: whoever has it can sign in its owner's name. If it is yours,"
            " hand out the public line (sudare keys show) instead; if it is another's, tell them "
            "that they need a new key, and delete it. Nothing was trusted"
        )
    return key
