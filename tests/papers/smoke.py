"""Figures at their smallest size, measured once for all tests of a file."""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from papers import Figure, Setting, Size, Verdict, figures
from papers.drawing import picture
from papers.figure import Results, Sample
from papers.files import as_csv
from papers.running import run

SMOKE = Setting(Size.SMOKE, 7)
Change = Callable[[str, str, float, NDArray[np.float64]], NDArray[np.float64] | float]


@cache
def results(name: str) -> Results:
    figure = figures()[name]
    ((_, found),) = run([(figure, figure.tasks(SMOKE))], 1, lambda *_: None)
    return found


def changed(figure: Figure, found: Results, change: Change) -> Results:
    """What the figure would have been told if the world were different."""
    samples = []
    for panel, curve, x, estimate in found.rows():
        values = found.values(panel, curve, x)
        told = np.broadcast_to(change(panel, curve, x, values), values.shape)
        samples.append(Sample(panel, curve, x, told, estimate.runs == 0))
    return Results(samples, figure.positive)


def verdict(name: str, change: Change | None = None) -> Verdict:
    figure, found = figures()[name], results(name)
    told = found if change is None else changed(figure, found, change)
    return figure.conclude(told).verdict


def check_figure(name: str, *words: str) -> None:
    """What holds for every figure: sentences, a CSV file, and a picture with these words in it."""
    figure, found = figures()[name], results(name)
    told = figure.conclude(found)
    for sentence in (figure.claim, told.measured, told.differs):
        assert sentence[0].isupper()
        assert sentence.rstrip(")").endswith(".")
        assert "nan" not in sentence.lower().split()
    assert told.findings
    assert told.verdict in Verdict
    lines = as_csv(figure, found).splitlines()
    assert len({line.count(",") for line in lines if '"' not in line}) == 1
    if figure.draw is None:
        return
    png, svg = picture(figure, found)
    assert png.startswith(b"\x89PNG")
    assert len(png) > 20_000
    for word in words:
        assert word in svg, word
    assert found.panels
    assert len(lines) == 1 + len(found.rows())
