"""The documentation builds, opens without a network, runs its examples and leaves nothing out."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import markdown
import pytest
import typer

from tests.support import PACKAGE, ROOT, debian
from tests.support.pages import Block, blocks, pages
from tools import docs_hook

REFERENCE = ROOT / "docs" / "reference"
# Modules with no promise to the outside.
INTERNAL = {"__init__", "__main__", "composition", "demo", "exact", "rounding"}
CHROMIUM = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*command, str(folder)], cwd=ROOT, env=env, capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert not said
    return folder


class Elements(HTMLParser):
    """The tags of a page, and the resources it loads."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.resources: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        # A link people may click is not a resource the page loads.
        if tag != "a":
            self.resources += [v for k, v in attrs if k in {"src", "href", "data"} and v]

    @property
    def outside(self) -> list[str]:
        return [r for r in self.resources if re.match(r"(https?:)?//", r)]


def test_outside_resources_are_recognised() -> None:
    page = '<a href="//a"><img src="b.png"><script src="https://c"></script><link href="//d"/>'
    assert Elements(page).outside == ["https://c", "//d"]


def test_site_builds_and_loads_nothing_from_outside(site: Path) -> None:
    built = sorted(site.rglob("*.html"))
    assert len(built) > len(list(REFERENCE.glob("*.md")))
    for page in built:
        text = page.read_text()
        assert Elements(text).outside == [], page.name
        assert "arithmatex" not in text, page.name


def test_theory_opens_in_a_browser(site: Path, tmp_path: Path) -> None:
    chromium = debian.require("chromium", "chromium")
    page = (site / "theory" / "index.html").as_uri()
    command = [chromium, *CHROMIUM, f"--user-data-dir={tmp_path}", "--dump-dom", page]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    elements = Elements(done.stdout)
    assert "math" in elements.tags
    assert elements.outside == []


def test_formulas() -> None:
    assert 'display="block"' in docs_hook.to_mathml(r"\frac{1}{2}", block=True)
    assert "<mi>&#x003B5;</mi>" in docs_hook.to_mathml(r"\varepsilon", block=False)
    with pytest.raises(ValueError, match="nosuchthing"):
        docs_hook.to_mathml(r"\nosuchthing", block=False)


def test_hook_leaves_code_alone() -> None:
    page = "So $a$ and `$b$`.\n\n```python notest no printer\nc = '$c$'\n```\n\n$$\nd < 1\n$$\n"
    content = markdown.markdown(
        docs_hook.on_page_markdown(page),
        extensions=["pymdownx.arithmatex", "pymdownx.superfences"],
        extension_configs={"pymdownx.arithmatex": {"generic": True}},
    )
    content = docs_hook.on_page_content(content, page=None)
    assert content.count("<math") == 2
    assert "$b$" in content
    assert "$c$" in content
    assert "notest" not in content


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        assert block.language not in {"py", "pycon", "python3"}, f"{block.where}: say python"
        if block.reason_not_tested:
            continue
        if block.language == "python":
            run_python(block, namespace)
        elif block.language == "console":
            run_console(block)


def run_python(block: Block, namespace: dict[str, object]) -> None:
    # The empty lines make tracebacks point into the page.
    source = "\n" * (block.line - 1) + block.text
    exec(compile(source, block.page, "exec", dont_inherit=True), namespace)


def run_console(block: Block) -> None:
    scripts = Path(sys.executable).parent
    env = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    for line in block.text.replace("\\\n", "").splitlines():
        if not line.startswith("$ sudare"):
            continue
        done = subprocess.run(line[2:], shell=True, env=env, capture_output=True, text=True)
        failed = done.returncode != 0
        assert failed == (block.mark == "fails"), f"{block.where}: {line}\n{done.stderr}"


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n- a\n\n    ```console fails\n    $ sudare nonsense\n    ```\n"
        "````text\n```python\nno\n```\n````\n```python notest needs a printer\nprint()\n```\n"
    )
    assert [(b.line, b.language, b.mark, b.text) for b in blocks(page)] == [
        (2, "python", "", "x = 1\n"),
        (7, "console", "fails", "$ sudare nonsense\n"),
        (10, "text", "", "```python\nno\n```\n"),
        (15, "python", "notest needs a printer", "print()\n"),
    ]


def test_every_public_module_is_in_the_reference() -> None:
    names = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    for name in names - INTERNAL - {"cli"}:
        page = REFERENCE / f"{name}.md"
        assert page.exists(), f"sudare.{name} has no page"
        assert f"::: sudare.{name}\n" in page.read_text()


def test_every_command_is_in_the_reference() -> None:
    from sudare.cli import app

    headings = re.findall(r"^#+ `?(sudare[^`\n]*?)`?$", (REFERENCE / "cli.md").read_text(), re.M)
    assert sorted(headings) == sorted(commands(typer.main.get_command(app), "sudare"))


def commands(command: Any, name: str) -> list[str]:
    """The full names of all commands that do something of their own."""
    if not hasattr(command, "commands"):
        return [name]
    return [
        full
        for child, sub in command.commands.items()
        if not sub.hidden
        for full in commands(sub, f"{name} {child}")
    ]


def test_every_test_that_the_docs_name_exists() -> None:
    missing = []
    for page in pages():
        file = ""
        for named in re.findall(r"`((?:tests/[\w/]+\.py)?(?:::\w+)?)`", page.read_text()):
            path, _, function = named.partition("::")
            file = path or file
            if not named or not file:
                continue
            source = ROOT / file
            text = source.read_text() if source.is_file() else ""
            if not text or (function and f"def {function}(" not in text):
                missing.append(f"{page.name}: {named}")
    assert missing == []
