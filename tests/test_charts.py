import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from sudare import charts


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def test_intervals_are_drawn_in_proportion_and_told_to_screen_readers() -> None:
    svg = charts.intervals(
        [
            charts.Interval("a <b>", 1.0, 0.0, 2.0, "own"),
            charts.Interval("c", 2.0, 1.0, 4.0, "blend"),
        ],
        "two & more",
        zero=0.0,
    )
    root = parsed(svg)
    assert root.attrib["aria-label"] == "two & more"
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["a <b>: 1 (0 to 2)", "c: 2 (1 to 4)"]
    first, second = (float(x) for x in re.findall(r'circle cx="([\d.]+)"', svg))
    zero = float(re.findall(r'class="zero" x1="([\d.]+)"', svg)[0])
    assert second - zero == pytest.approx(2 * (first - zero), abs=0.2)


def test_bars_start_at_zero() -> None:
    svg = charts.bars(
        [charts.Bar("x", 0.5), charts.Bar("y", 0.25), charts.Bar("z", 0.0)], "w", True
    )
    widths = [float(w) for w in re.findall(r'width="([\d.]+)" height="16"', svg)]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)
    assert widths[2] == 0.5  # still to be seen
    assert "50%" in svg


def test_curves_have_their_band_and_the_diagonal() -> None:
    series = charts.Series("s", [0.0, 1.0], [0.0, 1.0], "blend", [0.0, 0.8], [0.2, 1.0])
    svg = charts.curves([series], "t", "x", "y", diagonal=True)
    parsed(svg)
    assert svg.count("<polygon") == 1
    points = re.findall(r'polyline points="([^"]+)"', svg)[0].split()
    line = re.findall(r'class="zero" x1="(.*?)" y1="(.*?)" x2="(.*?)" y2="(.*?)"', svg)[0]
    assert points == [f"{line[0]},{line[1]}", f"{line[2]},{line[3]}"]
    assert ">low</text>" in charts.curves([series], "t", "x", "y", names=["low", "high"])


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3, 5), (0.72, 0.86), (1e-9, 2e-9), (5, 5), (-1e6, 1e6), (0, 1e-9)]
)
def test_ticks_are_few_round_and_cover_everything(low: float, high: float) -> None:
    ticks = charts._ticks(low, high)
    assert 2 <= len(ticks) <= 10
    steps = [b - a for a, b in pairwise(ticks)]
    assert max(steps) == pytest.approx(min(steps), rel=1e-3)
    if high > low:
        assert ticks[0] <= low + 1e-12
        assert ticks[-1] >= high - 1e-12
    mantissa = steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-9)
    assert round(mantissa, 3) in (1, 2, 5, 10, 4, 8)


def test_a_logarithmic_scale() -> None:
    scale = charts.LogScale(0.5, 200.0, 10.0, 110.0)
    assert (scale(0.5), scale(200.0)) == pytest.approx((10.0, 110.0))
    assert scale(10.0) == pytest.approx((scale(0.5) + scale(200.0)) / 2)
    assert scale.ticks() == [0.5, 1, 2, 5, 10, 20, 50, 100, 200]
    assert math.isfinite(scale(0.0))
    assert charts.LogScale(3.0, 3.0, 0.0, 1.0)(30.0) == pytest.approx(1.0)


def test_what_is_written_is_escaped() -> None:
    assert charts.text(1, 2, "a < b", more=' fill="red"') == (
        '<text x="1.0" y="2.0" text-anchor="start" fill="red">a &lt; b</text>'
    )
