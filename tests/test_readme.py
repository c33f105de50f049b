"""The README in its two languages: the same code, the same figures, links that lead somewhere."""

import json
import re
from pathlib import Path

import pytest

from sudare.foundations.privacy import account
from sudare.learners import MomentsClassifier
from tests.support import ROOT
from tests.support.pages import READMES, blocks, code_in
from tools import pictures

ENGLISH, JAPANESE = (ROOT / name for name in READMES)


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    text = page.read_text()
    for block in blocks(page):
        text = text.replace(block.text, "")
    return text


def figures(page: Path) -> list[list[str]]:
    """The numbers of every row of every table."""
    rows = [line for line in prose(page).splitlines() if line.startswith("|")]
    return [re.findall(r"[−-]?\d*\.?\d+(?: %)?", row) for row in rows]


def targets(page: Path) -> list[str]:
    """Where links and pictures lead, in order, other than out of the project."""
    found = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose(page))
    return [target for target in found if "://" not in target]


def test_code_is_the_same_but_for_comments() -> None:
    assert code_in(JAPANESE) == code_in(ENGLISH)


def test_figures_are_the_same() -> None:
    assert any(figures(ENGLISH))
    assert figures(JAPANESE) == figures(ENGLISH)


@pytest.mark.parametrize("page", [ENGLISH, JAPANESE], ids=lambda page: page.name)
def test_the_table_of_real_sites_is_what_the_runs_gave(page: Path) -> None:
    kept = json.loads(pictures.SITES.read_text())
    shown = re.findall(r"^\|[^`|]*`(\w+)`[^|]*\|(.*)\|$", page.read_text(), re.M)
    assert [name for name, _ in shown] == list(kept["tables"])
    for name, row in shown:
        table = kept["tables"][name]
        gains = [table[label]["1"] for label in ("separate", "sum, half honest", "one place")]
        expected = [
            str(table["sites"]),
            f"{table['rows']:,}",
            f"{table['own'][0]:.1f}",
            *(f"{mean:+.1f} ± {error:.1f}".replace("-", "−") for mean, error in gains),
        ]
        assert [cell.strip() for cell in row.split("|")] == expected
    assert f"{kept['runs']} " in prose(page)


def test_examples_are_short() -> None:
    examples = [block.text for block in blocks(ENGLISH) if block.language == "python"]
    assert len(examples) == 2
    for text in examples:
        assert len([line for line in text.splitlines() if line]) <= 11


def test_sections_pictures_and_links_are_the_same() -> None:
    levels = [re.findall(r"^(#+) ", prose(page), re.M) for page in (ENGLISH, JAPANESE)]
    assert levels[0] == levels[1]
    between = set(READMES)
    there, here = (sorted(set(targets(page)) - between) for page in (ENGLISH, JAPANESE))
    assert here == there


@pytest.mark.parametrize("page", [ENGLISH, JAPANESE], ids=lambda page: page.name)
def test_the_promise_is_what_the_example_prints(page: Path) -> None:
    (learner,) = set(re.findall(r"MomentsClassifier\(.*?\)", page.read_text()))
    event = eval(learner, {"MomentsClassifier": MomentsClassifier}).plan()
    shown = " ".join(re.findall(r"^> (.+)$", page.read_text(), re.M))
    assert shown == str(account([event], 1e-6))


def test_each_names_the_other() -> None:
    assert ENGLISH.name in targets(JAPANESE)
    assert JAPANESE.name in targets(ENGLISH)


@pytest.mark.parametrize("name", [*READMES, "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    missing = [target for target in targets(ROOT / name) if not (ROOT / target).exists()]
    assert missing == []


def test_what_is_compared_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "[a](b.md#c) ![d](e.svg)\n\n| x | −.5 | 1.2 % | 10 |\n\n```sh\n[no](no.md)\n```\n"
    )
    assert targets(page) == ["b.md", "e.svg"]
    assert figures(page) == [["−.5", "1.2 %", "10"]]
