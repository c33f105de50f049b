"""The documentation builds, opens without a network, runs its examples and leaves nothing out."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any, get_args
from unittest.mock import patch

import markdown
import pytest
import typer

import papers.command
import sudare
from sudare import counting, learners
from sudare.collector._routes import ENDPOINTS
from sudare.collector.monitoring import HEALTH_PATHS
from sudare.foundations import mechanisms, privacy, sampling
from tests.support import PACKAGE, ROOT, debian
from tests.support.commands import command
from tests.support.pages import READMES, Block, blocks, pages, spoken
from tools import docs_hook, pictures

DOCS = ROOT / "docs"
REFERENCE, THEORY = DOCS / "reference", DOCS / "theory"
# Modules with no promise to the outside.
INTERNAL = {"__init__", "__main__", "composition", "demo", "exact", "numerics", "rounding"}
PAPERS = "$ python -m papers"
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
    done = build(ROOT, folder)
    said = [line for line in done.stdout.splitlines() if not line.startswith("INFO ")]
    assert done.returncode == 0, "\n".join(said)
    assert said == []
    return folder


def build(project: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site. Not with --quiet: warnings that are not printed do not count as any."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    checked = settings[settings.index("validation:") : settings.index("\nnav:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\n{checked}\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# x\n\n[x](no.md) [x](#never) [x](/gone.md)\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    for problem in ("no.md", "never", "gone.md"):
        assert problem in done.stdout


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
    elements = Elements(opened((site / "theory" / "index.html").as_uri(), tmp_path))
    assert "math" in elements.tags
    assert elements.outside == []


@pytest.mark.parametrize(("words", "found"), [("overdrawn", True), ("nosuchword", False)])
def test_search_works_from_disk(site: Path, tmp_path: Path, words: str, found: bool) -> None:
    page = f"{(site / 'reference' / 'seal.html').as_uri()}?q={words}"
    answer = re.findall(r'md-search-result__meta">([^<]*)<', opened(page, tmp_path))
    assert answer
    assert ("matching document" in answer[0] and "No match" not in answer[0]) == found


def opened(page: str, folder: Path) -> str:
    """A page as a browser has it, its scripts run."""
    chromium = debian.require("chromium", "chromium")
    # The clock of the page, not of the machine: it stands still while anything is loading.
    wait = ["--virtual-time-budget=10000", "--dump-dom"]
    command = [chromium, *CHROMIUM, f"--user-data-dir={folder}", *wait, page]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_every_public_name_is_in_the_built_reference(site: Path) -> None:
    built = [page.read_text() for page in (site / "reference").rglob("*.html")]
    anchors = {a for page in built for a in re.findall(r'id="(sudare\.[\w.]+)"', page)}
    missing = [
        f"{room.__name__}.{name}"
        for room in rooms()
        for name in public_names(room)
        if not anchors & places(room, name) and not mentioned(room, name)
    ]
    assert missing == []


def places(room: ModuleType, name: str) -> set[str]:
    """Where a name may stand: under its room, or under the module that defines it."""
    defined = getattr(getattr(room, name), "__module__", room.__name__)
    return {f"{room.__name__}.{name}", f"{defined}.{name}"}


def mentioned(room: ModuleType, name: str) -> bool:
    """A constant or an alias has no heading of its own; a sentence about it will do."""
    page = REFERENCE / f"{room.__name__.split('.')[1]}.md"
    return page.exists() and re.search(rf"`{name}(\(\))?`", page.read_text()) is not None


def rooms() -> list[ModuleType]:
    names = {m.name for m in pkgutil.iter_modules(sudare.__path__)} - INTERNAL - {"cli"}
    return [importlib.import_module(f"sudare.{name}") for name in sorted(names)]


def public_names(module: ModuleType) -> list[str]:
    """What a module exports: by its list or, without one, what it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


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


# The other README holds the same code, and tests/test_readme.py sees to it.
RUN = [page for page in pages() if page.name != READMES[1]]


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    with patch.dict(os.environ):  # a page may set what its commands are to see
        for block in blocks(page):
            assert block.language not in {"py", "pycon", "python3"}, f"{block.where}: say python"
            if block.reason_not_tested:
                continue
            if block.language == "python":
                run_python(block, namespace)
            elif block.language == "console":
                run_console(block)
            elif named := re.fullmatch(r'title="([\w.-]+)"', block.mark):
                Path(named[1]).write_text(block.text)  # the file of this name


def test_the_tutorial_for_statisticians_needs_no_python() -> None:
    page = DOCS / "tutorials" / "five-hospitals.md"
    assert {block.language for block in blocks(page)} == {"console", "toml", "r"}


def run_python(block: Block, namespace: dict[str, object]) -> None:
    # The empty lines make tracebacks point into the page.
    source = "\n" * (block.line - 1) + block.text
    exec(compile(source, block.page, "exec", dont_inherit=True), namespace)


def run_console(block: Block) -> None:
    for line in block.text.replace("\\\n", "").splitlines():
        if line.startswith("$ cd "):
            os.chdir(line.removeprefix("$ cd "))  # monkeypatch.chdir goes back in the end
        if not line.startswith(("$ sudare", PAPERS)):
            continue
        code, told = run_line(line[2:])
        assert (code != 0) == (block.mark == "fails"), f"{block.where}: {line}\n{told}"


def run_line(line: str) -> tuple[int, str]:
    """Run a command as the shell would; in this process, where that makes no difference.

    The command line is the same function either way (tests/test_house.py starts the program
    itself); what is saved is a second or two of imports for each line.
    """
    words = spoken(line)
    if words is not None:
        if words[0] == "python":
            done = command(Path.cwd(), *words[3:], program=papers.command.main)
        else:
            done = command(Path.cwd(), *words[1:])
        return done.code, done.out + done.err
    scripts = Path(sys.executable).parent
    env = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    shell = subprocess.run(line, shell=True, env=env, capture_output=True, text=True)
    return shell.returncode, shell.stdout + shell.stderr


def test_lines_are_read_as_the_shell_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.csv", "a.csv"):
        Path(name).touch()
    assert spoken("sudare x 'a b' *.csv no*") == ["sudare", "x", "a b", "a.csv", "b.csv", "no*"]
    assert spoken("sudare x '*.csv'") == ["sudare", "x", "*.csv"]
    for line in (
        "sudare x > y",
        "sudare x | wc",
        "sudare x & sudare y",
        "sudare $HOME",
        "sudare `x`",
    ):
        assert spoken(line) is None


def test_failing_lines_fail_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in ("sudare nonsense", "sudare nonsense 2>&1"):
        code, told = run_line(line)
        assert code == 2
        assert "nonsense" in told


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


def test_names_are_found() -> None:
    assert "choose" in public_names(mechanisms)
    assert "np" not in public_names(mechanisms)
    assert public_names(learners) == learners.__all__
    assert mentioned(counting, "METHODS")
    assert not mentioned(counting, "METHOD")


def test_every_kind_of_event_is_explained() -> None:
    kinds = table(THEORY / "guarantees.md", "## Kinds")
    told = {re.findall(r"`(\w+)", row[0])[0]: row for row in kinds}
    events = {event.__name__: event for event in get_args(privacy.Event)}
    assert set(told) == set(events)
    for name, event in events.items():
        tag = str(event.__struct_config__.tag)
        assert f"`{tag}`" in told[name][1]
        word = re.findall(r"`([\w:.,-]+)`", told[name][2])[0]
        assert [type(e) for e in privacy.parse([word])] == [event]


def test_every_mechanism_has_statement_proof_correction_code_and_test() -> None:
    rows = table(THEORY / "index.md", "## Every mechanism")
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row[0])}
    # What the others are made of.
    parts = {"draw_error", "bernoulli", "exponentials"}
    estimators = {name for name in learners.__all__ if name[0].isupper()}
    expected = {*public_names(mechanisms), *estimators, *counting.METHODS} - parts
    expected |= {name for name in sampling.__all__ if name.startswith("draw_")}
    expected |= {"account", "plan_seal", "publish_choice", "publish_combination"}
    assert expected - {"PublicScaler"} <= named
    for mechanism, statement, correction, code, test in rows:
        assert links(correction), mechanism
        if not statement.startswith("checked: "):
            proved, *_ = [section(THEORY, link) for link in links(statement)]
            assert all(words in proved for words in ("(proved", "*Proof", "∎")), mechanism
        assert re.search(r"`src/", code), mechanism
        assert re.search(r"`tests/", test), mechanism


def table(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its first line."""
    lines = page.read_text().split(f"\n{heading}\n", 1)[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    stop = next((i for i in range(start, len(lines)) if lines[i][:1] != "|"), len(lines))
    return [[c.strip() for c in line.strip("|").split("|")] for line in lines[start + 2 : stop]]


def links(cell: str) -> list[str]:
    return re.findall(r"\]\(([^)]+)\)", cell)


def section(folder: Path, link: str) -> str:
    """The text below the heading that a link leads to; the whole page without an anchor."""
    name, _, anchor = link.partition("#")
    text = (folder / name).read_text()
    if not anchor:
        return text
    for heading in re.finditer(r"^(#+) (.+)$", text, re.M):
        if re.sub(r"[^\w]+", "-", heading[2].lower()).strip("-") == anchor:
            rest = text[heading.end() :]
            return re.split(rf"^#{{1,{len(heading[1])}}} ", rest, maxsplit=1, flags=re.M)[0]
    raise AssertionError(f"no such section: {link}")


@pytest.mark.parametrize("folder", ["how-to", "theory", "tutorials"])
def test_every_page_is_listed_where_readers_look(folder: str) -> None:
    there = {page.name for page in (DOCS / folder).glob("*.md")} - {"index.md"}
    listed = {link.partition("#")[0] for link in links((DOCS / folder / "index.md").read_text())}
    assert there - listed == set()


# Those of `plan_learning` take minutes; what they call is tested with the site.
@pytest.mark.parametrize(
    "name", ["count", "epsilon-belief", "epsilon-count", "epsilon-curve", "sites"]
)
def test_pictures_are_what_the_tool_draws(name: str) -> None:
    drawn = pictures.PICTURES[name]()
    assert (pictures.IMAGES / f"{name}.svg").read_text() == drawn


def test_every_route_is_in_the_reference() -> None:
    """docs/reference/http.md has one heading for each route, such as `## GET /health`."""
    served = {f"{endpoint.method} {endpoint.path}" for endpoint in ENDPOINTS}
    served |= {f"GET {path}" for path in HEALTH_PATHS}
    told = re.findall(r"^#+ `?([A-Z]+ /[^`\n]*)`?$", (REFERENCE / "http.md").read_text(), re.M)
    assert sorted(told) == sorted(served)


def test_every_file_that_the_docs_name_exists() -> None:
    named = re.compile(r"`((?:src|papers|tests|docs|tools|benchmarks)/[\w./*-]+)(?:::\w+)?`")
    missing = [
        f"{page.name}: {path}"
        for page in pages()
        for path in named.findall(page.read_text())
        if not any(ROOT.glob(path))
    ]
    assert missing == []


def test_every_name_that_the_docs_give_exists() -> None:
    """Such as `sudare.counting.Reporter`; attributes of objects are not looked for."""
    named = re.compile(r"`(sudare(?:\.(?!toml`)\w+)+)(?:\(\))?`")
    missing = [
        f"{page.name}: {name}"
        for page in pages()
        for name in named.findall(page.read_text())
        if not exists(name)
    ]
    assert missing == []


def exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def test_every_room_is_in_the_architecture() -> None:
    rows = table(DOCS / "architecture.md", "## The rooms")
    listed = {Path(row[1].strip("`")).stem for row in rows}
    there = {m.name for m in pkgutil.iter_modules(sudare.__path__)} - {"__main__"}
    assert listed == there


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
