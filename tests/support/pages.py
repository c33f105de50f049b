"""The code blocks of the pages people read."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

READMES = ("README.md", "README.ja.md")
_FENCE = re.compile(r"^ *(?P<ticks>`{3,}|~{3,}) *(?P<info>[^`]*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the rest of the info string, its text and its first line."""

    page: Path
    line: int
    language: str
    mark: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def reason_not_tested(self) -> str | None:
        """Why the block is left out, if it is; ValueError if it does not say why."""
        word, _, reason = self.mark.partition(" ")
        if word != "notest":
            return None
        if not reason.strip():
            raise ValueError(f"{self.where}: notest needs a reason")
        return reason.strip()


def pages() -> list[Path]:
    """Every page with examples."""
    loose = [ROOT / name for name in (*READMES, "CONTRIBUTING.md")]
    return [page for page in loose if page.exists()] + sorted((ROOT / "docs").rglob("*.md"))


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order; one that is never closed ends with the page."""
    lines = enumerate(page.read_text().splitlines(), start=1)
    for number, line in lines:
        if fence := _FENCE.match(line):
            body = []
            for _, inside in lines:
                if inside.strip() == fence["ticks"]:
                    break
                body.append(inside)
            language, _, mark = fence["info"].strip().partition(" ")
            text = textwrap.dedent("\n".join(body)) + "\n"
            yield Block(page, number + 1, language, mark.strip(), text)


def not_tested() -> list[str]:
    """One line for every block that is left out."""
    return [
        f"{block.where}: {block.mark}"
        for page in pages()
        for block in blocks(page)
        if block.mark.startswith("notest")
    ]


def code_in(page: Path) -> list[tuple[str, str]]:
    """The language and the code of every block, without comments: those may be translated."""
    return [(b.language, re.sub(r"\s*#.*", "", b.text)) for b in blocks(page)]


def spoken(line: str) -> list[str] | None:
    """The words of a command, wildcards filled in; None where only a shell would do."""
    bare = re.sub(r"'[^']*'", "", line)
    if re.search(r"[$`]", bare) or re.search(r"[|&;<>()]", re.sub(r'"[^"]*"', "", bare)):
        return None
    reader = shlex.shlex(line, posix=False)
    reader.whitespace_split, reader.commenters = True, "#"
    words: list[str] = []
    for word in reader:
        found = sorted(str(p) for p in Path().glob(word)) if re.search(r"[*?[]", word) else []
        words += found or shlex.split(word)
    return words
