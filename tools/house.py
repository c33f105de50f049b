"""python -m tools.house [folder]: how large each room is, who imports it, and the longest chain.

Lines are those of Python files. Imports are those that a module makes when it is loaded, so without
what a function imports when it is called, and without what only type checkers read. Faces are
looked through: a name imported from a room counts as an import of the module that defines it, which
is what a reader has to open next.
"""

import argparse
import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "sudare"


@dataclass(frozen=True)
class Room:
    """A folder of the package, or a module beside the folders."""

    name: str
    modules: int
    lines: int
    importers: int
    """Modules of other rooms that import something of it."""


@dataclass(frozen=True)
class House:
    """All rooms, and how modules hang together."""

    rooms: tuple[Room, ...]
    fan_in: dict[str, int]
    """How many modules import each."""
    chain: tuple[str, ...]
    """The longest there is, from the module that imports to the one that imports nothing here."""


def survey(package: Path = PACKAGE) -> House:
    """Read every file of a package."""
    sources = {_name(package, path): path.read_text() for path in package.rglob("*.py")}
    trees = {name: ast.parse(text) for name, text in sources.items()}
    graph = {name: _imports(name, trees) for name in sorted(trees)}
    fan_in = {name: sum(name in used for used in graph.values()) for name in graph}
    rooms = []
    for room in sorted({_room(name) for name in graph}):
        inside = {name for name in graph if _room(name) == room}
        lines = sum(sources[name].count("\n") for name in inside)
        importers = sum(bool(graph[name] & inside) for name in graph.keys() - inside)
        rooms.append(Room(room, len(inside), lines, importers))
    return House(tuple(rooms), fan_in, _longest(graph))


def _longest(graph: dict[str, set[str]]) -> tuple[str, ...]:
    @cache
    def below(name: str) -> tuple[str, ...]:
        return (name, *max(map(below, sorted(graph[name])), key=len, default=()))

    return max(map(below, graph), key=len)


def _name(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room(name: str) -> str:
    return ".".join(name.split(".")[:2])


def _imports(name: str, trees: dict[str, ast.Module]) -> set[str]:
    found = set()
    for node in _used(trees[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node.module and not node.level:
            found |= {_defined(node.module, alias.name, trees) for alias in node.names}
    return {each for each in found if each in trees} - {name}


def _used(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    yield from (node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))


def _defined(module: str, name: str, trees: dict[str, ast.Module]) -> str:
    """The module in which a name that can be imported from another is written."""
    if f"{module}.{name}" in trees:
        return f"{module}.{name}"
    for node in ast.walk(trees[module]) if module in trees else ():
        if isinstance(node, ast.ImportFrom) and node.module in trees and node.module != module:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _defined(node.module, alias.name, trees)
    return module


def main() -> None:
    """Print it as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tools.house")
    parser.add_argument("package", nargs="?", type=Path, default=PACKAGE, help="folder to read")
    house = survey(parser.parse_args().package.resolve())
    print(
        "| room | modules | lines | imported by modules of other rooms |\n| --- | --- | --- | --- |"
    )
    for room in house.rooms:
        print(f"| {room.name} | {room.modules} | {room.lines:,} | {room.importers} |")
    modules, lines = (sum(getattr(r, of) for r in house.rooms) for of in ("modules", "lines"))
    print(f"| all | {modules} | {lines:,} | |")
    most = sorted(house.fan_in, key=lambda name: (-house.fan_in[name], name))[:10]
    print("\nMost imported: " + ", ".join(f"{name} ({house.fan_in[name]})" for name in most))
    print(f"\nLongest chain ({len(house.chain)} modules): " + " → ".join(house.chain))


if __name__ == "__main__":
    main()
