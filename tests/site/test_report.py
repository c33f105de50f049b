import html
import re
from html.parser import HTMLParser

import msgspec
import pytest

from sudare.site._assessment import Assessment, Bin, Measure
from sudare.site._model import Component, Model, Opinion, Party, Refusal, Story
from sudare.site._report import render
from tests.site.clinics import classes, numbers

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
        opinions=(
            Opinion(feature="age", source="blend", kind="blend", effect=0.1, low=0.1, high=0.1),
            Opinion(feature="age", source=HOSTILE, kind="party", effect=0.2, low=-1, high=1),
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
    assert "effect on the target" in page
    assert "What was promised" not in page
