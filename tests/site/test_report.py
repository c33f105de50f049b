import html
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest

from sudare import site
from sudare.ledger import Ledger
from sudare.site._assessment import Assessment, Bin, Measure
from sudare.site._model import Component, Model, Party, Refusal, Seen, Slope, Story, load_model
from sudare.site._report import render
from sudare.study import raw_content
from tests.site.clinics import classes, clinic, keyring, numbers, write_patients

GOLDEN = Path(__file__).parents[1] / "golden"
HOSTILE = '<script>alert("x")</script>'


def model(**changed) -> Model:
    party = Party(
        name=HOSTILE,
        signer="A",
        rows=100,
        epsilon=1.0,
        delta=1e-6,
        sentence="A promise.",
        influence=0.4,
    )
    story = Story(
        sentence="The releases helped.",
        weights={"own model": 0.6, "all releases together": 0.4},
        parties=(party,),
        refusals=(Refusal(what="b.release", reason=HOSTILE),),
        slopes=(
            Slope(feature="age", source="blend", kind="blend", value=0.1, reason="shrunk"),
            Slope(feature="age", source=HOSTILE, kind="party", value=0.2, low=-1, high=1),
            Slope(feature="age", source="Clinic 10", kind="party", reason=HOSTILE),
            Slope(feature="age", source="Clinic 9", kind="party", reason=HOSTILE),
        ),
        assessment=Assessment(
            rows=50,
            measure="share correct",
            own=Measure(0.7, 0.6, 0.8),
            blend=Measure(0.8, 0.7, 0.9),
            gain=Measure(0.1, 0.02, 0.18),
            calibration=(Bin(0.2, 0.25, 0.1, 0.4, 25), Bin(0.8, 0.75, 0.6, 0.9, 25)),
        ),
    )
    parts = (Component(name="own model", weight=1.0, coefficients=(1.0, 0.0, 0.0, 0.0, 0.0)),)
    made = Model(
        study=classes(),
        party="Clinic A",
        moment="2026-02-03T10:00:00",
        rows=50,
        components=parts,
        story=story,
    )
    return msgspec.structs.replace(made, **changed)


class Outline(HTMLParser):
    """Headings, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "!doctype"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


def test_the_page_is_whole_and_tells_everything() -> None:
    page = render(model())
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert outline.headings == [
        "hearts",
        "Own model against blend",
        "What was blended",
        "Coefficients",
        "What each source says",
        "What was promised, and to whom",
        "For the data-protection officer",
    ]
    assert "The blend is better." in page
    assert "A promise." in page
    assert classes().digest() in page


def test_nothing_from_outside_becomes_markup_and_nothing_is_loaded() -> None:
    page = render(model())
    assert "<script" not in page
    assert html.escape(HOSTILE) in page
    assert not re.search(r"(?:src|href)=|@import|url\(", page)


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [
        (Measure(0.1, -0.1, 0.3), "within chance"),
        (Measure(-0.1, -0.2, -0.05), "own model is better"),
    ],
)
def test_a_blend_that_did_not_help_is_called_so(gain: Measure, verdict: str) -> None:
    made = model()
    assert made.story.assessment is not None
    judged = msgspec.structs.replace(made.story.assessment, gain=gain)
    story = msgspec.structs.replace(made.story, assessment=judged)
    assert verdict in render(model(story=story))


def test_an_own_model_alone_and_a_regression_have_their_report() -> None:
    bare = Story(sentence="No releases were given.", weights={"own model": 1.0})
    parts = (Component(name="own model", weight=1.0, coefficients=(0.5, 0.1)),)
    page = render(model(study=numbers(), components=parts, story=bare))
    assert "change of days" in page
    assert "odds ratio" not in page
    assert "What was promised" not in page
    assert "What each source says" not in page


def test_a_model_of_an_earlier_version_has_its_report_without_the_wrong_lines() -> None:
    page = render(load_model(GOLDEN / "model-1.json"))
    assert "What each source says" not in page
    assert "Five-fold" in page
    assert "Other measures" not in page
    assert "Hospital C0" in page


def test_a_feature_that_no_source_tells_has_no_chart() -> None:
    made = model()
    nothing = (Slope(feature="age", source="own rows", kind="own", reason="unsettled"),)
    page = render(model(story=msgspec.structs.replace(made.story, slopes=nothing)))
    assert "No source tells it." in page
    assert "slope of age" not in page


def test_a_coefficient_that_releases_may_have_told_stands_beside_its_doubt() -> None:
    made, seen = model(), Seen(feature="sex=m", varies=False, own=0, of=100)
    page = render(model(story=msgspec.structs.replace(made.story, seen=(seen,))))
    (line,) = [each for each in table(page) if each[0] == "sex=m"]
    assert line[1:] == [
        "m instead of f: no own row has it, and releases do not tell who does", "0", "1", "0",
    ]  # fmt: skip


def test_releases_without_a_mark_are_named_once_in_their_order() -> None:
    page = render(model())
    assert f"{html.escape(HOSTILE)}, all of these: Clinic 9, Clinic 10." in page
    assert "Without a line: blend (shrunk)." in page


def test_the_weak_releases_of_many_are_folded_not_left_out() -> None:
    made = model()
    (party,) = made.story.parties
    many = tuple(
        msgspec.structs.replace(party, name=f"Clinic {k}", influence=(60 - k) / 3000)
        for k in range(60)
    )
    page = render(model(story=msgspec.structs.replace(made.story, parties=many)))
    assert [name for name, _ in rows_of(chart(page, "influence of each release"))] == [
        f"Clinic {k}" for k in range(40)
    ]
    folded = page[page.index("<details>") : page.index("</details>")]
    assert "20 more" in folded
    assert [name for name, _ in rows_of(folded)] == [f"Clinic {k}" for k in range(40, 60)]


Rows = list[tuple[str, str]]


def chart(page: str, title: str) -> str:
    start = page.index(f'aria-label="{title}')
    return page[start : page.index('aria-hidden="true"><span class="name"></span>', start)]


def rows_of(text: str) -> Rows:
    found = re.findall(r'class="name">([^<]+)</span>.*?class="value">([^<]*)</span>', text)
    return [(html.unescape(name), html.unescape(value)) for name, value in found]


def table(text: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(<td>.*?)</tr>", text)
    return [[html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", row)] for row in rows]


def numbers_in(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]\d+)?", text)]


def agree(text: str, *exact: float) -> None:
    """Every number in a text, each to the digits that it is shown with."""
    found = re.findall(r"[-+]?\d+\.?\d*(?:e[-+]\d+)?", text)
    assert len(found) == len(exact), (text, exact)
    for shown, number in zip(found, exact, strict=True):
        mantissa, _, power = shown.partition("e")
        unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
        if "." not in mantissa and len(mantissa.lstrip("+-")) > 3:  # 4 digits of a large number
            unit = 10.0 ** (math.floor(math.log10(abs(number))) - 3)
        assert abs(float(shown) - number) <= 0.51 * unit, (text, number)


def keep_women(path: Path) -> str:
    lines = path.read_text().splitlines(keepends=True)
    women = "".join(line for line in lines if ",m," not in line)
    path.write_text(women)
    return women


@pytest.fixture(scope="module")
def blended(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Three large clinics and a small one, in whose rows nobody is male."""
    folder = tmp_path_factory.mktemp("clinics")
    study = classes(epsilon=4.0)
    others = [clinic(folder, f"C{k}", seed=k, rows=3000) for k in range(3)]
    for each in others:
        each.publish(study, folder / "out", party=f"the {each.name}")
    own = write_patients(folder / "own.csv", 120, 9)
    keep_women(own)
    checked = site.collect([str(folder / "out")], keyring(*others), study)
    return site.blend(own, study, checked, party="Own")


def test_every_number_on_the_page_is_computed_a_second_time(blended: Model) -> None:
    page, kept = render(blended), json.loads(blended.to_bytes())
    story, judged = kept["story"], kept["story"]["assessment"]
    assert f"{kept['rows']} rows of its own and 3 releases" in page
    scheme = re.search(r"Five-fold cross-validation: the (\d+) own rows.*?into (\d+) parts", page)
    assert scheme is not None
    assert [int(each) for each in scheme.groups()] == [kept["rows"], 5]

    gains = re.search(r"Gain of the blend: (.*?)\. <b>.*?the blend gains (.*?)\.</p>", page)
    assert gains is not None
    agree(gains[1], *judged["gain"].values())
    agree(gains[2], *judged["log_loss_gain"].values())
    for (_, said), which in zip(
        rows_of(chart(page, "share correct")), ("own", "blend"), strict=True
    ):
        agree(said, *judged[which].values())

    measured = page[page.index("<h3>Other measures") : page.index("<h3>Calibration")]
    compared = {each["name"]: each for each in judged["compared"]}
    del compared["share_correct"]
    for (_, own, blend), each in zip(table(measured), compared.values(), strict=True):
        agree(own, *each["own"].values())
        agree(blend, *each["blend"].values())

    weights = dict(rows_of(chart(page, "weights of")))
    assert weights.keys() == story["weights"].keys()
    for name, said in weights.items():
        agree(said, 100 * story["weights"][name])
    influences = {each["name"]: each["influence"] for each in story["parties"]}
    told = dict(rows_of(chart(page, "influence of")))
    assert told.keys() == influences.keys() == {"C0", "C1", "C2"}
    for name, said in told.items():
        agree(said, 100 * influences[name])
    whole = re.search(r"all 3 together (\d+) %", page)
    assert whole is not None
    assert float(whole[1]) == pytest.approx(100 * sum(influences.values()), abs=0.51)

    # By hand: 4 features, each divided by √4; age counts from 55 in 35s, sex from ½ in halves,
    # pressure from 140 in 60s; the constant is ¼.
    theta = np.sum(
        [each["weight"] * np.array(each["coefficients"]) for each in kept["components"]], axis=0
    )
    slopes = theta[:4] / (2 * np.array([35, 0.5, 60, 1]))
    intercept = theta[4] / 4 - slopes @ [55, 0.5, 140, 0]
    lines = table(page[page.index("<h2>Coefficients") : page.index("<h2>What each")])
    assert [line[0] for line in lines] == [
        "(intercept)",
        "age",
        "sex=m",
        "pressure",
        "pressure missing",
    ]
    agree(lines[0][2], intercept)
    for line, slope in zip(lines[1:], slopes, strict=True):
        agree(line[2], slope)
        agree(line[3], math.exp(slope))
    assert [line[4] for line in lines[:3]] == ["", "", "0"]  # others have men, so it is told
    assert int(lines[4][4]) > 0

    features = dict.fromkeys(each["feature"] for each in story["slopes"])
    marks = 0
    for feature in features:
        told = dict(rows_of(chart(page, f"slope of {feature} by source")))
        for each in story["slopes"]:
            if each["feature"] != feature or each["value"] is None:
                continue
            ends = [each["value"]] + [each[end] for end in ("low", "high") if each[end] is not None]
            agree(told[each["source"]], *(100 * end for end in ends))
            marks += 1
    assert marks > 8

    promised = page[page.index("<h2>What was promised") : page.index("<section class=page>")]
    for name in influences:
        assert f"{name} (3000 rows, calls itself “the {name}”)" in promised
    assert "ε = 4" in promised


def test_a_party_has_one_name_on_the_whole_page(blended: Model) -> None:
    page = render(blended)
    assert page.count("the C1") == 1  # beside its name, where promises are listed
    assert {each.source for each in blended.story.slopes} == {
        "blend", "own rows", "all releases together", "C0", "C1", "C2",
    }  # fmt: skip


def test_a_level_that_nobody_has_is_said_to_have_no_coefficient(tmp_path: Path) -> None:
    study = classes(epsilon=4.0)
    other = clinic(tmp_path, "C", seed=1, rows=3000, cap=8.0)
    women = keep_women(other.data)
    with Ledger(other.ledger) as ledger:
        ledger.open("women", ledger.fingerprint(raw_content(other.data)), 4.0, 1e-6)
    other.publish(study, tmp_path / "out")
    checked = site.collect([str(tmp_path / "out")], keyring(other), study)
    own = write_patients(tmp_path / "own.csv", 100, 9)
    keep_women(own)
    page = render(site.blend(own, study, checked, party="Own"))
    (line,) = [each for each in table(page) if each[0] == "sex=m"]
    rows = women.count("\n") - 1
    said = re.fullmatch(
        rf"m instead of f: no coefficient, since no own row has it, and of {rows:,} others at most "
        r"(\d+) have it", line[1]
    )  # fmt: skip
    assert said is not None
    assert int(said[1]) < 300
    assert line[2:] == ["–", "–", "0"]
