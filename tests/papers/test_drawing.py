"""Pictures: reproducible, and with what they promise."""

import sys
from itertools import combinations

import numpy as np
import pytest

from papers import drawing, figures
from sudare.foundations.checks import InvalidInput
from tests.papers.smoke import results


def test_the_same_results_give_the_same_files() -> None:
    figure, found = figures()["glance-3"], results("glance-3")
    assert drawing.picture(figure, found) == drawing.picture(figure, found)


def test_no_date_and_no_program_in_the_files() -> None:
    png, svg = drawing.picture(figures()["glance-3"], results("glance-3"))
    assert b"Software" not in png
    assert "<dc:date>" not in svg
    assert "Matplotlib v" not in svg


def test_without_matplotlib_one_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidInput, match=r"pip install -e '.\[reproduce\]'"):
        drawing.require()


# Machado, Oliveira and Fernandes (2009), for complete deuteranopia and protanopia, linear RGB.
_BLINDNESS = {
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
}


def _linear(color: str) -> np.ndarray:
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _distance(a: str, b: str, kind: str) -> float:
    seen = [np.clip(np.array(_BLINDNESS[kind]) @ _linear(c), 0, 1) ** (1 / 2.2) for c in (a, b)]
    return float(np.linalg.norm(seen[0] - seen[1]))


@pytest.mark.parametrize("kind", _BLINDNESS)
def test_colours_can_be_told_apart_by_the_colour_blind(kind: str) -> None:
    colors = [drawing.BLUE, drawing.SKY, drawing.GREEN]
    colors += [drawing.ORANGE, drawing.VERMILION, drawing.PINK]
    assert min(_distance(a, b, kind) for a, b in combinations(colors, 2)) > 0.15
    # A red and a green that they confuse.
    assert _distance("#a04010", "#606010", kind) < 0.15
