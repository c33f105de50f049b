import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from sudare import charts


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def places(chart: str, mark: str) -> list[float]:
    return [float(x) for x in re.findall(rf'{mark}="([\d.]+)%"', chart)]


def rows_of(chart: str) -> list[tuple[str, str]]:
    """What stands on both sides of the marks."""
    found = []
    for row in parsed(chart)[:-1]:
        name, _, value = row
        found.append((name.text or "", value.text or ""))
    return found


def test_intervals_are_drawn_in_proportion_with_their_numbers_beside_them() -> None:
    chart = charts.intervals(
        [
            charts.Interval("a <b>", 1.0, 0.0, 2.0, "own"),
            charts.Interval("c", 2.0, 1.0, 4.0, "blend"),
            charts.Interval("d", 3.0, math.nan, math.nan),
            charts.Interval("e", 0.0, 0.0, 0.0, note="hidden & gone"),
        ],
        "two & more",
        zero=0.0,
    )
    assert parsed(chart).attrib["aria-label"] == "two & more"
    assert rows_of(chart) == [
        ("a <b>", "1.0 (0.0 to 2.0)"),
        ("c", "2.0 (1.0 to 4.0)"),
        ("d", "3.0"),
        ("e", "hidden & gone"),
    ]
    assert places(chart, "circle cx") == [25.0, 50.0, 75.0]  # of an axis from 0 to 4
    assert re.findall(r'<line x1="([\d.]+)%" y1="50%" x2="([\d.]+)%"', chart) == [
        ("0.00", "50.00"),
        ("25.00", "100.00"),
    ]
    assert set(places(chart, 'class="zero" x1')) == {0.0}
    assert charts.intervals([charts.Interval("e", 0, 0, 0, note="hidden")], "nothing drawn")


def test_ratios_have_a_logarithmic_axis_with_a_line_at_one() -> None:
    rows = [
        charts.Interval("a <b>", 2.0, 1.0, 4.0, "blend"),
        charts.Interval("c", 0.5, 0.25, 1.0, "blend"),
        charts.Interval("d", 1.5, 1.2, 1e9, "blend"),
    ]
    chart = charts.ratios(rows, "odds & ratios")
    assert 'aria-label="odds &amp; ratios"' in chart
    assert "a &lt;b&gt;" in chart
    assert "2 (1 to 4)" in chart
    first, second, _ = (float(x) for x in re.findall(r'circle cx="([\d.]+)%"', chart))
    one = float(re.findall(r'class="zero" x1="([\d.]+)%"', chart)[0])
    assert first - one == pytest.approx(one - second, abs=0.1)
    # A whisker that goes on is drawn to the edge, and its numbers are told all the same.
    assert 'x2="100.00%" y2="50%"' in chart
    assert "1e+09" in chart
    assert charts.ratios([], "nothing")


def test_bars_start_at_zero_and_small_ones_can_be_told_apart() -> None:
    chart = charts.bars(
        [charts.Bar("x", 0.5), charts.Bar("y", 0.25), charts.Bar("z", 0.0)], "w", True
    )
    widths = places(chart, "width")
    assert widths[0] == pytest.approx(2 * widths[1])
    assert widths[2] == 0.2  # still to be seen
    assert [value for _, value in rows_of(chart)] == ["50 %", "25 %", "0 %"]
    small = charts.bars([charts.Bar("x", 0.0083), charts.Bar("y", 0.0061)], "w", True)
    assert [value for _, value in rows_of(small)] == ["0.83 %", "0.61 %"]
    axis = re.findall(r'text-anchor="middle">(.*?)</text>', small)
    assert axis == ["0.0 %", "0.2 %", "0.4 %", "0.6 %", "0.8 %", "1.0 %"]
    nothing = charts.bars([charts.Bar("y", 0.0)], "w", True, most=0.0)
    assert re.findall(r'text-anchor="middle">(.*?)</text>', nothing)[0] == "0 %"
    assert places(nothing, "width") == [0.2]
    alike = charts.bars([charts.Bar("y", 0.1)], "w", True, most=0.4)
    assert places(alike, "width") == [25.0]


@pytest.mark.parametrize(
    ("ticks", "digits"),
    [([0, 1], 0), ([0, 0.5], 1), ([2.5, 5.0], 1), ([0.1, 0.35], 2), ([0, 200], 0)],
)
def test_ticks_have_the_digits_that_tell_them_apart(ticks: list[float], digits: int) -> None:
    assert charts._digits(ticks) == digits


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
