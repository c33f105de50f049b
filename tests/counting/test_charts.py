"""The picture of a plan."""

import itertools
import xml.etree.ElementTree as ElementTree

import pytest

from sudare.counting._charts import error_chart
from sudare.counting._planning import plan
from sudare.foundations.checks import InvalidInput

SVG = "{http://www.w3.org/2000/svg}"


def test_a_curve_for_every_method_inside_the_picture() -> None:
    plans = [plan(2_000, 20, epsilon, share=0.1, changes=2) for epsilon in (4.0, 0.5, 1.0)]
    picture = ElementTree.fromstring(error_chart(plans))
    curves = picture.findall(f"{SVG}polyline")
    assert len(curves) == 6
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    for curve in curves:
        points = [tuple(map(float, p.split(","))) for p in curve.attrib["points"].split()]
        assert len(points) == 3
        assert all(0 < x < width and 0 < y < height for x, y in points)
        assert [x for x, _ in points] == sorted(x for x, _ in points)
        # A larger ε is never worse, and down is better.
        assert [y for _, y in points] == sorted(y for _, y in points)
    texts = [t.text or "" for t in picture.findall(f"{SVG}text")]
    assert {"glance", "masks", "harmony", "harmony-signed", "rappor", "tree"} <= set(texts)
    assert any("2,000 users, 20 rounds, a share of 0.1" in text for text in texts)


def test_names_do_not_overlap() -> None:
    picture = ElementTree.fromstring(error_chart([plan(5_000, 10, e) for e in (1.0, 2.0)]))
    names = [t for t in picture.findall(f"{SVG}text") if t.attrib["fill"] != "#333333"]
    heights = sorted(float(t.attrib["y"]) for t in names)
    assert len(heights) == 5
    assert min(b - a for a, b in itertools.pairwise(heights)) >= 14.9


def test_one_epsilon_is_no_curve() -> None:
    with pytest.raises(InvalidInput, match="at least two values of epsilon"):
        error_chart([plan(100, 2, 1.0)] * 2)


def test_errors_that_are_all_alike_or_zero_still_make_a_picture() -> None:
    assert error_chart([plan(10, 1, e) for e in (39.0, 40.0)]).startswith("<svg")
