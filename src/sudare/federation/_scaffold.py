"""Writes what a federation starts from: an app folder for Flower, and a node's configuration."""

import re
from pathlib import Path
from string import Template

import msgspec

from sudare import __version__
from sudare.federation._messages import QuestionTerms, terms_of
from sudare.foundations import checks
from sudare.storage.files import toml_value
from sudare.study import Study

_CLIENT = '''\
"""The node's side. All of it is in the sudare that the node itself has installed."""

from sudare.federation.flower import client_app

app = client_app()
'''
_SERVER = '''\
"""The server's side: it carries signed releases, and holds no key and no data."""

from sudare.federation.flower import server_app

app = server_app()
'''
_PROJECT = Template("""\
# A Flower app for the study $name, written by sudare $version.
# Nodes take nothing from here: they compare these terms with those of their own study file and
# refuse if one differs.

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$project"
version = "1.0.0"
description = "A sudare federation"
license = "Apache-2.0"
dependencies = ["sudare[flower]"]

[tool.hatch.build.targets.wheel]
packages = ["$package"]

[tool.flwr.app]
publisher = "sudare"

[tool.flwr.app.components]
serverapp = "$package.server_app:app"
clientapp = "$package.client_app:app"

[tool.flwr.app.config]
$terms
# Begin with so many nodes, or when the wait is over with those who are there.
min-nodes = 2
wait-seconds = 60.0
# Go on without those who have not answered by then, or for so long after another has.
phase-seconds = 600.0
grace-seconds = 600.0
# Folder or address to which the server also writes the releases; nowhere if empty.
place = ""
# Carry a pool instead: one noise for everybody, by the plan that each node has (sudare pool new).
# also-release asks for separate releases, too, for nodes outside the pool; all pay for theirs.
pool = $pool
also-release = false
""")
_NODE = Template("""\
# What this node answers from. Nobody but the organisation itself writes here; nothing that a server
# or an app sends can change it. Paths are relative to this file.

party = $party
data = $data
study = "study.toml"
ledger = "ledger.db"        # or postgresql://...
key = "key.json"            # sudare keys new key.json
trust = "trust.toml"        # whose releases are used: sudare trust add NAME KEY
releases = "releases"       # the own release and all verified ones are kept here
pool = $pool
model = "model.json"        # the blend; it stays here
log = "federation.log"      # what was asked and answered, without any data

[policy]
release = true
blend = true
pool = true
# Answers leave at whole multiples of this, so that the time they take says nothing of the data.
answer_seconds = 5.0
# After blending a node says "done". With an epsilon above 0 it adds a noisy number: the loss of the
# others' averaged releases on its rows. Each one told is charged to the ledger.
metric_epsilon = 0.0
metric_times = 1
""")


def write_app(folder: Path, study: Study, *, pool: bool = False) -> list[Path]:
    """The app folder for a study's federation, which may carry a pool; refuses to overwrite one."""
    package = re.sub(r"[^a-z0-9]+", "_", study.name.lower()).strip("_")
    package = f"federation_{package}"[:60].rstrip("_")
    project = _PROJECT.substitute(
        name=study.name,
        version=__version__,
        project=package.replace("_", "-"),
        package=package,
        terms="\n".join(_lines(terms_of(study))),
        pool=str(pool).lower(),
    )
    return _write(
        folder,
        {
            "pyproject.toml": project,
            f"{package}/__init__.py": "",
            f"{package}/server_app.py": _SERVER,
            f"{package}/client_app.py": _CLIENT,
        },
    )


def write_node(path: Path, party: str, data: str, *, pool: str = "") -> list[Path]:
    """A node's configuration with every setting explained; refuses to overwrite one.

    `pool` names the plan of a pool that the node takes part in.
    """
    line = f"{toml_value(pool):<20} # the plan of a pool: sudare pool new; nothing for no pool"
    text = _NODE.substitute(party=toml_value(party), data=toml_value(data), pool=line)
    return _write(path.parent, {path.name: text})


def _write(folder: Path, files: dict[str, str]) -> list[Path]:
    paths = [folder / name for name in files]
    for path in paths:
        if path.exists():
            raise checks.InvalidInput(f"{path} exists: choose another place, or remove it")
    try:
        for path, text in zip(paths, files.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise checks.InvalidInput(
            f"Cannot write {problem.filename or folder}: {problem.strerror}"
        ) from None
    return paths


def _lines(terms: QuestionTerms) -> list[str]:
    return [
        f"{name} = {toml_value(value)}" for name, value in msgspec.structs.asdict(terms).items()
    ]
