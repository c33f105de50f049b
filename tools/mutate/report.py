"""Tables of what became of mutants, and those known to live."""

import json
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.mutate.modules import PRIVACY, ROOT, source_of
from tools.mutate.operators import mutants
from tools.mutate.running import Result

_LIVING = Path(__file__).with_name("living.toml")
_TITLE = """# mutation

Small faults put into a copy of the package, one at a time (`python -m tools.mutate`, see
CONTRIBUTING.md): a comparison turned, a sign lost, a constant doubled, a statement deleted, a
rounding to the wrong side. A test must fail for each. A mutant that lives is listed with the reason
why no test should fail, or as a gap. The sample also showed which tests to write, and those were
written before this page; another one (`--seed`) may find more.
"""


Key = tuple[str, str, str, str]


def reasons() -> dict[Key, str]:
    """Why a mutant lives, by module, function, text before and text after."""
    listed: list[dict[str, str]] = tomllib.loads(_LIVING.read_text())["mutant"]
    return {key(one): one["reason"] for one in listed}


def key(mutant: dict[str, Any]) -> Key:
    """What a mutant is known by when lines have moved."""
    return mutant["module"], mutant["function"], mutant["before"], mutant["after"]


def line(result: Result) -> str:
    """One mutant for the terminal."""
    mutant = result.mutant
    place = f"{mutant.module}:{mutant.lines[0]}"
    by = f"  [{result.test.removeprefix('tests/')}]" if result.test else ""
    change = f"{mutant.function}: {mutant.before}  →  {mutant.after}"
    return f"{result.outcome:8}{result.seconds:6.1f} s  {place:28} {change}{by}"


def saved(folder: Path) -> list[dict[str, Any]]:
    """What was found before, but for mutants that no longer exist."""
    path = folder / "mutation.json"
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    modules = dict.fromkeys(one["mutant"]["module"] for one in found)
    sources = {name: source_of(ROOT, name) for name in modules}
    exist = {
        key(asdict(mutant))
        for name, source in sources.items()
        if source.exists()
        for mutant in mutants(name, source.read_text())
    }
    return [one for one in found if key(one["mutant"]) in exist]


def save(folder: Path, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
    """Both, the new ones in place of the old: the page is tracked, the data beside it is not."""
    again = {key(one["mutant"]) for one in new}
    kept = [one for one in old if key(one["mutant"]) not in again]
    every = sorted(
        [*kept, *new], key=lambda one: (one["mutant"]["module"], one["mutant"]["number"])
    )
    (folder / "mutation.json").write_text(json.dumps(every, indent=1) + "\n")
    (folder / "mutation.md").write_text(markdown(every))


def table(results: list[dict[str, Any]]) -> str:
    """Counts by module."""
    known = reasons()
    lines = [
        "| module | mutants | killed | out of time | lived | of these explained |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    modules = dict.fromkeys(one["mutant"]["module"] for one in results)
    for name in [*modules, None]:
        mine = [one for one in results if name in (None, one["mutant"]["module"])]
        outcomes = [one["outcome"] for one in mine]
        explained = sum(one["outcome"] == "lived" and key(one["mutant"]) in known for one in mine)
        counts = [outcomes.count(kind) for kind in ("killed", "timeout", "lived")]
        cells = [name or "all", len(mine), *counts, explained]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def markdown(results: list[dict[str, Any]]) -> str:
    """The page: counts, then every mutant that lives."""
    known = reasons()
    alive = [
        f"- `{one['mutant']['module']}`, `{one['mutant']['function'] or 'constants'}`: "
        f"`{_cell(one['mutant']['before'])}` → `{_cell(one['mutant']['after'])}`. "
        f"{known.get(key(one['mutant']), 'A gap.')}"
        for one in results
        if one["outcome"] == "lived"
    ]
    drawn = f"\n{_drawn(results)}\n\n{table(results)}"
    return f"{_TITLE}{drawn}\n## Living\n\n" + "\n".join(alive) + "\n"


def _drawn(results: list[dict[str, Any]]) -> str:
    """Which seeds the sample was drawn with, and what it has nothing of."""
    seeds = sorted({one["seed"] for one in results if one.get("seed") is not None})
    there = {one["mutant"]["module"] for one in results}
    without = [f"`{name}`" for name in PRIVACY if name not in there]
    said = f"Seeds: {', '.join(map(str, seeds)) or 'none'}."
    return f"{said} Without a mutant in the sample: {', '.join(without)}." if without else said


def _cell(text: str) -> str:
    return text.replace("`", "'")
