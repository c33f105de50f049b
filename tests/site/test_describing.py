"""Tables of real files: what is used, and every number on the page computed a second time."""

import math
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq

from sudare import site
from sudare.estimation import Quantity
from sudare.foundations import checks
from sudare.ledger import Ledger
from sudare.releases import MomentsRelease, PooledRelease
from sudare.site._describing import shown
from sudare.study import raw_content
from tests.site.clinics import Clinic, classes, clinic, keyring, numbers, write_stays
from tests.site.desks import desks, finish

Array = NDArray[np.float64]
Numbers = tuple[float, float, float]
Z = 1.959963984540054


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> list[site.Checked]:
    """Three clinics that pooled; the third released by itself as well."""
    folder = tmp_path_factory.mktemp("pool")
    made = desks(folder, study=classes(epsilon=4.0), rows=400, cap=20.0)
    finish(made)
    third = Clinic(made[2].name, made[2].data, made[2].folder / "ledger.db", made[2].key)
    third.publish(classes(epsilon=4.0), folder / "shared")
    ring = made[0].pool.keyring
    fourth = clinic(folder, "Clinic D", seed=9, rows=500)
    fourth.publish(classes(epsilon=4.0), folder / "shared")
    ring = ring.with_key("Clinic D", fourth.key.public)
    return site.collect([str(folder / "shared")], ring, classes(epsilon=4.0))


def releases(checked: list[site.Checked]) -> dict[str, MomentsRelease]:
    found = {}
    for each in checked:
        assert each.trusted is not None
        assert isinstance(each.trusted.release, MomentsRelease)
        found[each.trusted.signer] = each.trusted.release
    return found


def test_a_pool_is_preferred_and_nobody_counts_twice(pooled: list[site.Checked]) -> None:
    made = site.describe_releases(pooled, classes(epsilon=4.0))
    assert sorted(source.organisations for source in made.sources) == [1, 3]
    assert made.description.n == 400 + 401 + 402 + 500
    (refusal,) = made.refusals
    assert refusal.reason == "its rows are in a pooled release that is used"
    assert "4 organisations" in made.sentence
    (pool,) = (each for each in releases(pooled).values() if isinstance(each, PooledRelease))
    alone = releases(pooled)["Clinic D"]
    total = math.hypot(pool.noise_std, alone.noise_std)
    assert made.description.noise_std == pytest.approx(total)


class Naive:
    """The same numbers by dense arithmetic, for the study of clinics alone.

    Features: age, sex = m, pressure, pressure missing (each over √4 = 2), the constant 1/4. Noise
    is pushed through by differences, not by derivatives.
    """

    def __init__(self, gram: Array, cross: Array, n: int, noise_std: float) -> None:
        norm = math.hypot(1.0, 0.25)
        self.moments = np.concatenate([(gram * norm**2 / n).ravel(), cross * norm / n])
        self.entries = [(i, j) for i in range(5) for j in range(i, 5)]
        self.sizes = [
            noise_std * norm**2 / n * (math.sqrt(2) if i == j else 1.0) for i, j in self.entries
        ] + [noise_std * norm / n] * 5
        # The squares of a flag say as much as its mean.
        by_mean, by_square = noise_std * norm**2 / n / 0.25, 2 * math.sqrt(2) * norm**2 / n
        by_square *= noise_std
        self.flag = by_square**2 / (by_mean**2 + by_square**2)

    def gap(self, m: Array) -> float:
        return 2 * float(self.flag * m[3, 4] / 0.25 + (1 - self.flag) * 2 * m[3, 3])

    def call(self, what: Callable[[Array, Array], float], moments: Array) -> float:
        return what(moments[:25].reshape(5, 5), moments[25:])

    def slopes(self, what: Callable[[Array, Array], float]) -> Array:
        """By how much a standard deviation of each noise moves it."""
        found = []
        for place, size in enumerate(self.sizes):
            step = np.zeros(30)
            if place < len(self.entries):
                i, j = self.entries[place]
                step[5 * i + j] = step[5 * j + i] = 1e-6
            else:
                step[25 + place - len(self.entries)] = 1e-6
            up, down = (self.call(what, self.moments + sign * step) for sign in (1, -1))
            found.append((up - down) / 2e-6 * size)
        return np.array(found)

    def linear(self, what: Callable[[Array, Array], float]) -> Numbers:
        value, half = self.call(what, self.moments), Z * float(np.linalg.norm(self.slopes(what)))
        return value, value - half, value + half

    def ratio(
        self, top: Callable[[Array, Array], float], below: Callable[[Array, Array], float]
    ) -> Numbers:
        a, b = self.call(top, self.moments), self.call(below, self.moments)
        first, second = self.slopes(top), self.slopes(below)

        def excess(rho: float) -> float:
            return abs(a - rho * b) - Z * float(np.linalg.norm(first - rho * second))

        value = a / b
        return value, brentq(excess, value - 1e3, value), brentq(excess, value, value + 1e3)

    def deviation(
        self, square: Callable[[Array, Array], float], first: Callable[[Array, Array], float],
        below: Callable[[Array, Array], float],
    ) -> Numbers:  # fmt: skip
        a, b, k = (self.call(each, self.moments) for each in (square, first, below))
        noise = float(np.sum(self.slopes(first) ** 2))
        value = a / k - (b / k) ** 2 + noise / k**2
        mean = math.copysign(math.sqrt(max(b**2 - noise, 0.0)), b)
        slopes = self.slopes(square) / k - 2 * mean / k**2 * self.slopes(first)
        slopes += (-a / k**2 + 2 * mean**2 / k**3) * self.slopes(below)
        total = float(np.sum(slopes**2)) + 2 * noise**2 / k**4
        middle = value - 4 * (Z**2 + 1) * mean**2 / k**2 * noise**2 / k**4 / total
        half = Z * math.sqrt(total)
        low, at, high = (math.sqrt(max(each, 0)) for each in (middle - half, value, middle + half))
        return at, low, high

    def table(self) -> dict[str, Numbers]:
        def ill(m: Array, s: Array) -> float:
            return 0.5 + 0.5 * s[4] / 0.25

        def male(m: Array, s: Array) -> float:
            return 0.5 + m[1, 4] / 0.25

        def ill_male(m: Array, s: Array) -> float:
            # ¼(1 + y)(1 + 2x), x = ±½
            return 0.25 * (1 + s[4] / 0.25 + 2 * m[1, 4] / 0.25 + 2 * s[1])

        def known(m: Array, s: Array) -> float:
            return 1 - self.gap(m)

        def ill_gap(m: Array, s: Array) -> float:
            return 0.5 * self.gap(m) + 0.5 * 2 * s[3]

        # Pressures counted from 130, where a gap counts nothing: 120·x + 10.
        def pressure(m: Array, s: Array) -> float:
            return 120 * m[2, 4] / 0.25 + 10

        def pressure_square(m: Array, s: Array) -> float:
            return 120**2 * m[2, 2] + 2400 * m[2, 4] / 0.25 + 100

        def age(m: Array, s: Array) -> float:
            return 70 * m[0, 4] / 0.25

        def age_square(m: Array, s: Array) -> float:
            return 70**2 * m[0, 0]

        def one(m: Array, s: Array) -> float:
            return 1.0

        return {
            "ill yes": self.linear(ill),
            "age mean": self.linear(lambda m, s: 55 + age(m, s)),
            "age SD": self.deviation(age_square, age, one),
            "sex f": self.linear(lambda m, s: 1 - male(m, s)),
            "sex m": self.linear(male),
            "sex f ill": self.ratio(
                lambda m, s: ill(m, s) - ill_male(m, s), lambda m, s: 1 - male(m, s)
            ),
            "sex m ill": self.ratio(ill_male, male),
            "pressure mean": moved(self.ratio(pressure, known), 130),
            "pressure SD": self.deviation(pressure_square, pressure, known),
            "pressure missing": self.linear(lambda m, s: self.gap(m)),
            "pressure missing ill": self.ratio(ill_gap, lambda m, s: self.gap(m)),
        }


def moved(numbers: Numbers, by: float) -> Numbers:
    value, low, high = (each + by for each in numbers)
    return value, low, high


def cells(page: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(<td>.*?)</tr>", page)
    return [[unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", row)] for row in rows]


def read(text: str) -> tuple[Numbers, int] | None:
    """The three numbers of a cell and their decimals; None for a reason."""
    match = re.fullmatch(r"(-?[\d.]+)(?: %)? \((-?[\d.]+) to (-?[\d.]+)\)\*?", text)
    if match is None:
        assert text.startswith("hidden by the noise"), text
        return None
    value, low, high = map(float, match.groups())
    return (value, low, high), len(match[1].partition(".")[2])


def test_every_number_on_the_page_is_computed_a_second_time(pooled: list[site.Checked]) -> None:
    study = classes(epsilon=4.0)
    made = site.describe_releases(pooled, study)
    used = [
        each
        for name, each in releases(pooled).items()
        if isinstance(each, PooledRelease) or name == "Clinic D"
    ]
    assert len(used) == 2
    naive = Naive(
        sum((each.gram_matrix for each in used), np.zeros((5, 5))),
        sum((each.cross_vector for each in used), np.zeros(5)),
        sum(each.n for each in used),
        math.hypot(*(each.noise_std for each in used)),
    )
    expected, page = naive.table(), site.render_description(made)
    first, seen = "", 0
    main = page[page.index("<h2>Who") : page.index("<h2>ill")]
    for column, level, number, among in cells(main):
        first = column or first
        for text, key in ((number, f"{first} {level}"), (among, f"{first} {level} ill")):
            if not text:
                continue
            factor = 100.0 if "%" in text else 1.0
            if (found := read(text)) is not None:
                seen += 1
                for shown_number, exact in zip(found[0], expected[key], strict=True):
                    possible = min(max(exact * factor, 0.0), 100.0 if factor > 1 else 200.0)
                    assert abs(shown_number - possible) <= 0.51 * 10.0 ** -found[1], (key, text)
    lines = list(site.table_lines(made.description))
    groups = [line.outcome for line in lines if line.outcome is not None]
    assert seen == sum(each.told for each in [*(line.quantity for line in lines), *groups])
    drawn = re.findall(
        r'class="name">([^<]+)</span>.*?class="value">(\S+) \((\S+) to (\S+)\)</span>', page
    )
    assert len(drawn) == sum(each.told for each in groups) + 1
    for label, *numbers_drawn in drawn:
        key = "ill yes" if label == "everybody" else f"{label.replace(': ', ' ')} ill"
        for text, exact in zip(numbers_drawn, expected[key], strict=True):
            decimals = len(text.partition(".")[2])
            possible = min(max(100 * exact, 0), 100)
            assert abs(float(text) - possible) <= 0.51 * 10.0**-decimals
    rest = page[page.index("<h2>Correlations") : page.index("<h2>How to read")]
    ((one, other, correlated),) = cells(rest)
    assert (one, other) == ("age", "pressure")
    if (found := read(correlated)) is not None:
        assert found[0][0] == pytest.approx(_correlation(naive), abs=0.51 * 10.0 ** -found[1])


def _correlation(naive: Naive) -> float:
    m = naive.moments[:25].reshape(5, 5)
    noise = float(np.sum(naive.slopes(lambda m, s: m[0, 4] / 0.25) ** 2))
    means = m[:, 4] / 0.25
    spreads = [m[k, k] - means[k] ** 2 + noise for k in (0, 2)]
    return float((m[0, 2] - means[0] * means[2]) / math.sqrt(spreads[0] * spreads[1]))


def test_the_page_is_safe_and_whole(pooled: list[site.Checked]) -> None:
    made = site.describe_releases(pooled, classes(epsilon=4.0))
    page = site.render_description(made)
    assert "Who falls &lt;ill&gt;?" in page
    assert "viewport" in page
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", page)
    for note in made.description.notes:
        assert note.split("'")[0] in unescape(page)
    for source in made.sources:
        assert source.sentence in unescape(page)
    assert "Not used" in page


def test_a_page_without_pairs_or_groups(tmp_path: Path) -> None:
    stays = numbers()
    one = clinic(tmp_path, "A", seed=1, rows=200)
    one.data = write_stays(tmp_path / "stays.csv", 200, seed=1)
    one.ledger = tmp_path / "stays.db"
    with Ledger(one.ledger) as ledger:
        ledger.open("stays", ledger.fingerprint(raw_content(one.data)), 4.0, 1e-6)
    one.publish(stays, tmp_path / "out")
    checked = site.collect([str(tmp_path / "out")], keyring(one), stays)
    made = site.describe_releases(checked, stays)
    page = site.render_description(made)
    assert "<svg" not in page
    assert "Correlations" not in page
    assert "Two columns" not in page
    assert "only pooled releases hold the squares" in page
    assert "1 organisation." in made.sentence
    rows = list(site.csv_rows(made.description))
    assert [row[4] for row in rows] == ["mean", "standard deviation"] * 2
    assert all(len(row) == len(site.CSV_HEADER) for row in rows)


def test_models_without_moments_are_refused_with_the_reason(tmp_path: Path) -> None:
    study = classes(model="objective")
    one = clinic(tmp_path, "A", seed=1)
    one.publish(study, tmp_path / "out")
    checked = site.collect([str(tmp_path / "out")], keyring(one), study)
    with pytest.raises(checks.InvalidInput, match="coefficients of a model, not moments"):
        site.describe_releases(checked, study)
    with pytest.raises(checks.InvalidInput, match="of 0 files none"):
        site.describe_releases([], study)


def test_impossible_sums_are_left_out(pooled: list[site.Checked]) -> None:
    (hostile,) = (e for e in pooled if e.trusted is not None and e.trusted.signer == "Clinic D")
    assert hostile.trusted is not None
    release: Any = hostile.trusted.release
    false = msgspec.structs.replace(release, cross=tuple(1e6 for _ in release.cross))
    signed = msgspec.structs.replace(hostile.trusted.signed, release=false)
    trusted = msgspec.structs.replace(hostile.trusted, signed=signed)
    checked = [site.Checked("x", trusted, None), *(e for e in pooled if e is not hostile)]
    made = site.describe_releases(checked, classes(epsilon=4.0))
    assert [source.organisations for source in made.sources] == [3]
    assert any("Σyx" in refusal.reason for refusal in made.refusals)


@pytest.mark.parametrize(
    ("numbers_shown", "percent", "text"),
    [
        ((0.123456, 0.11, 0.137), True, "12.3 % (11.0 to 13.7)"),
        ((54.321, 50.0, 58.6), False, "54.3 (50.0 to 58.6)"),
        ((54.321, 14.0, 94.6), False, "54 (14 to 90)*"),
        ((-0.001, -0.01, 0.008), True, "0.00 % (0.00 to 0.80)*"),
        ((0.5, 0.5, 0.5), False, "0.500000 (0.500000 to 0.500000)"),
    ],
)
def test_numbers_are_shown_to_the_digits_that_they_have(
    numbers_shown: Numbers, percent: bool, text: str
) -> None:
    value, low, high = numbers_shown
    most = 1.0 if percent else 90.0
    quantity = Quantity(told=True, value=value, low=low, high=high, least=0.0, most=most)
    assert shown(quantity, percent) == text
    hidden = Quantity(told=False, least=0.0, most=1.0, reason="because")
    assert shown(hidden, percent) == "because"
