"""Models of real files: what is used, what is refused, and every number a second time."""

import csv
import io
import math
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from sudare import site
from sudare.estimation import NoisySums
from sudare.exchange import Keyring
from sudare.foundations import checks
from sudare.foundations.randomness import seeded
from sudare.ledger import Ledger
from sudare.pooling import NewtonStep, open_pooled
from sudare.releases import MomentsRelease, PooledRelease
from sudare.site._estimate_page import drawn_step, what_is_compared
from sudare.site._estimating import Estimated, _differences
from sudare.study import Study, raw_content, read_table
from tests.estimation.test_alike import pool
from tests.site.clinics import (
    Clinic,
    classes,
    clinic,
    counts,
    keyring,
    numbers,
    write_stays,
)
from tests.site.desks import desks, finish

Array = NDArray[np.float64]
Numbers = tuple[float, float, float]
Z = 1.959963984540054


class Made:
    """Releases in a place, and who is trusted."""

    def __init__(self, folder: Path, study: Study, ring: Keyring, data: list[Path]) -> None:
        self.folder, self.study, self.ring, self.data = folder, study, ring, data

    def checked(self, study: Study | None = None) -> list[site.Checked]:
        return site.collect([str(self.folder)], self.ring, study or self.study)

    def estimate(self, **changed: Any) -> Estimated:
        return site.estimate_releases(self.checked(), self.study, self.ring, **changed)


@pytest.fixture(scope="module")
def logistic(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Three clinics that pooled for a logistic model; a fourth released by itself."""
    # So large an ε that real noise hides nothing.
    folder, study = tmp_path_factory.mktemp("logistic"), classes(epsilon=40.0)
    made = desks(folder, study=study, rows=1500, cap=200.0, kind="logistic", colluders=0)
    finish(made)
    fourth = clinic(folder, "Clinic D", seed=9, rows=500, cap=200.0)
    fourth.publish(study, folder / "shared")
    ring = made[0].pool.keyring.with_key("Clinic D", fourth.key.public)
    return Made(folder / "shared", study, ring, [each.data for each in made])


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Three clinics that pooled numbers."""
    folder = tmp_path_factory.mktemp("linear")
    made = desks(folder, study=numbers(), rows=1500, cap=20.0)
    finish(made)
    return Made(folder / "shared", numbers(), made[0].pool.keyring, [e.data for e in made])


@pytest.fixture(scope="module")
def poisson(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Three clinics that pooled counts."""
    folder = tmp_path_factory.mktemp("poisson")
    made = desks(folder, study=counts(), rows=4000, cap=200.0, kind="poisson", epsilon=40.0,
                 colluders=0)  # fmt: skip
    finish(made)
    return Made(folder / "shared", counts(), made[0].pool.keyring, [e.data for e in made])


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Five clinics that released numbers separately."""
    folder, clinics = tmp_path_factory.mktemp("apart"), []
    for k in range(5):
        data = write_stays(folder / f"{k}.csv", 2000 + 100 * k, seed=k)
        one = clinic(folder, f"Clinic {k}", seed=k, rows=10)
        one = Clinic(one.name, data, folder / f"stays {k}.db", one.key)
        with Ledger(one.ledger) as ledger:
            ledger.open("stays", ledger.fingerprint(raw_content(data)), 4.0, 1e-6)
        one.publish(numbers(), folder / "out")
        clinics.append(one)
    return Made(folder / "out", numbers(), keyring(*clinics), [each.data for each in clinics])


def moments(made: Made) -> MomentsRelease:
    found = [each.trusted.release for each in made.checked() if each.trusted is not None]
    (pool,) = (each for each in found if isinstance(each, PooledRelease))
    return pool


def sessions(made: Made) -> list[NewtonStep]:
    """The last one first."""
    (file,) = made.folder.glob("pool-*/pooled.release")
    board = open_pooled(file.read_bytes(), made.ring)
    return [board.newton(2), board.newton(1)]


def noise_of(sigma: float, d: Array) -> Array:
    """Var(Ed) by the entries of E, one by one."""
    p, total = len(d), np.zeros((len(d), len(d)))
    for i in range(p):
        for k in range(i, p):
            unit = np.zeros((p, p))
            unit[i, k] = unit[k, i] = sigma * (math.sqrt(2) if i == k else 1.0)
            total += np.outer(unit @ d, unit @ d)
    return total


def curved(step: NewtonStep, hessian: Array, d: Array, constant: float) -> Array:
    """½Σw′(x·d)²x of rows that are normal where the weights are: on a grid of points."""
    total = hessian[-1, -1] / constant**2
    mean = hessian[:-1, -1] / (constant * total)
    spread = hessian[:-1, :-1] / total - np.outer(mean, mean)
    nodes, chances = np.polynomial.hermite_e.hermegauss(18)
    m = len(mean)
    points = np.stack(np.meshgrid(*[nodes] * m), axis=-1).reshape(-1, m)
    weights = np.prod(np.stack(np.meshgrid(*[chances] * m), axis=-1), axis=-1).ravel()
    rows = points @ np.linalg.cholesky(spread).T + mean
    rows = np.hstack([rows, np.full((len(rows), 1), constant)])
    slope = 1 - 2 * expit(rows @ step.start)
    return np.asarray((weights / weights.sum() * total * slope * (rows @ d) ** 2) @ rows / 2)


def to_units(study: Study, reach: float = 1.0) -> Array:
    """From rows at most 1 long to the study's units, by prediction: no formula of the package."""
    features, contract = study.features, study.contract
    matrix = np.zeros((len(features) + 1, contract.dimension))
    zero = [(0 - each.centre) / each.scale for each in features]

    def score(table: list[float]) -> Array:
        return np.append(table, contract.constant) / contract.full_norm * reach

    base = score(zero)
    for k, each in enumerate(features):
        one = list(zero)
        one[k] = (1 - each.centre) / each.scale
        matrix[k] = score(one) - base
    matrix[-1] = base
    return matrix


class Expected:
    """Estimates and standard errors, and what is shown of them."""

    def __init__(self, values: Array, covariance: Array, ratios: bool) -> None:
        self.values, self.errors = values, np.sqrt(np.diag(covariance))
        self.ratios = ratios

    def interval(self, place: int, step: float = 1.0) -> Numbers:
        half, value = Z * self.errors[place], self.values[place]
        low, middle, high = (float(step * each) for each in (value - half, value, value + half))
        return middle, low, high

    def ratio(self, place: int, step: float = 1.0) -> Numbers:
        value, low, high = (math.exp(each) for each in self.interval(place, step))
        return value, low, high


def expected_logistic(made: Made) -> Expected:
    """Two sessions as one: shares by noise and curve where the last one alone leads."""
    both, study = sessions(made), made.study
    constant = study.contract.constant / study.contract.full_norm
    alone, _ = solved(both[:1], [1.0], constant)
    sizes = []
    for step in both:
        d = alone - step.start
        rest = curved(step, step.hessian, d, constant)
        product = float(np.trace(noise_of(step.hessian_noise_std, d)))
        sizes.append(len(d) * step.noise_std**2 + product + 2 * float(rest @ rest))
    share = sizes[0] / sum(sizes)
    share = share if share >= 0.05 else 0.0
    theta, covariance = solved(both, [1 - share, share], constant)
    matrix = to_units(study)
    return Expected(matrix @ theta, matrix @ covariance @ matrix.T, True)


def solved(both: list[NewtonStep], shares: list[float], constant: float) -> tuple[Array, Array]:
    p = len(both[0].start)
    pairs = list(zip(both, shares, strict=True))
    hessian = np.sum([w * step.hessian for step, w in pairs], axis=0)
    target = np.sum([w * (step.score + step.hessian @ step.start) for step, w in pairs], axis=0)
    noise = sum(w**2 * step.noise_std**2 for step, w in pairs)
    theta: Array = both[0].start
    rest = np.zeros(p)
    for _ in range(10):
        rest = np.sum(
            [w * curved(step, hessian, theta - step.start, constant) for step, w in pairs], axis=0
        )
        before, theta = theta, np.linalg.solve(hessian, target - rest / 2)
    variance = hessian + noise * np.eye(p) + 2 * np.outer(rest, rest)
    for step, w in pairs:
        variance += w**2 * noise_of(step.hessian_noise_std, before - step.start)
    inverse = np.linalg.inv(hessian)
    return theta, inverse @ variance @ inverse


def expected_linear(made: Made) -> Expected:
    release, study = moments(made), made.study
    assert isinstance(release, PooledRelease)
    assert release.squares is not None
    gram, sigma = release.gram_matrix, release.noise_std
    gram[-1, -1] = release.n * (study.contract.constant / study.contract.full_norm) ** 2
    theta: Array = np.asarray(np.linalg.solve(gram, release.cross_vector), dtype=np.float64)
    left = release.squares - 2 * theta @ release.cross_vector + theta @ gram @ theta
    noise = noise_of(sigma, theta) + sigma**2 * np.eye(2)
    noise[-1, -1] -= 2 * sigma**2 * theta[-1] ** 2  # n·constant² is public
    inverse, matrix = np.linalg.inv(gram), to_units(study, study.target_reach)
    scale = left / release.n
    for _ in range(50):  # what fitting took away depends on the covariance, and it on the scale
        variance = noise + scale * gram
        scale = (left + np.trace(inverse @ variance)) / release.n
    values = matrix @ theta
    values[-1] += study.target_middle
    return Expected(values, matrix @ inverse @ variance @ inverse @ matrix.T, False)


def cells(page: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(<td.*?)</tr>", page)
    return [[unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows]


def drawn(page: str) -> list[tuple[str, str]]:
    """Names and numbers beside the marks of charts."""
    found = re.findall(
        r'<span class="name">([^<]+)</span><span class="track">.*?<span class="value">([^<]+)<',
        page,
    )
    return [(unescape(name), unescape(text)) for name, text in found]


def close(text: str, numbers: Numbers) -> None:
    """To the digits that are shown, and a thousandth for what is solved in rounds."""
    match = re.fullmatch(r"(-?[\d.]+) \((-?[\d.]+) to (-?[\d.]+)\)", text)
    assert match is not None, text
    for shown, exact in zip(match.groups(), numbers, strict=True):
        last = 10.0 ** -len(shown.partition(".")[2])
        assert abs(float(shown) - exact) <= 0.52 * last + 1e-3 * abs(exact)


def near(text: str, exact: float) -> None:
    last = 10.0 ** -len(text.partition(".")[2])
    assert abs(float(text) - exact) <= 0.52 * last + 1e-3 * abs(exact)


def check_page(made: Made, expected: Expected, build: Callable[..., Estimated]) -> None:
    found = build()
    page = site.render_estimate(found, made.study)
    main = page[page.index("<h2>Coefficients") : page.index("<h2>Drawn")]
    shown = cells(main)
    assert len(shown) == len(expected.values)
    for place, row in enumerate(shown):
        rest = row[2:]
        if expected.ratios:
            ratio = rest.pop(0)
            if place == len(shown) - 1:
                assert ratio == ""  # the intercept's is none
            else:
                close(ratio, expected.ratio(place))
        close(rest[0], expected.interval(place))
        near(rest[1], expected.errors[place])
        z = expected.values[place] / expected.errors[place]
        near(rest[2], z)
        p = 2 * stats.norm.sf(abs(z))
        if rest[3] == "< 0.001":
            assert p < 0.001
        else:
            near(rest[3], p)
    marks = drawn(page)
    assert len(marks) == len(expected.values) - 1  # the intercept is on another scale
    for place, (_, text) in enumerate(marks):
        step = drawn_step(found.model.coefficients[place].term, made.study)
        close(text, (expected.ratio if expected.ratios else expected.interval)(place, step))


def test_every_number_of_a_logistic_page_is_computed_a_second_time(logistic: Made) -> None:
    check_page(logistic, expected_logistic(logistic), logistic.estimate)


def test_every_number_of_a_linear_page_is_computed_a_second_time(linear: Made) -> None:
    expected = expected_linear(linear)
    check_page(linear, expected, linear.estimate)
    model = linear.estimate().model
    page = site.render_estimate(linear.estimate(), linear.study)
    assert model.residual_deviation is not None
    assert f"Residual standard deviation: {model.residual_deviation:.3g}." in page
    assert model.residual_deviation == pytest.approx(3.0, rel=0.2)
    assert model.noise_share is not None
    assert f"{model.noise_share:.0%} is due to the noise" in page


def predictions(rows: list[dict[str, str]], people: list[dict[str, str]]) -> list[float]:
    """From the CSV alone, as anybody would: no part of the package."""
    found = []
    for person in people:
        score = 0.0
        for row in rows:
            if row["source"] != "everybody":
                continue
            value = float(row["estimate"])
            if not row["column"]:
                score += value
                continue
            cell = person[row["column"]]
            if row["level"]:
                score += value * (cell == row["level"])
            elif row["term"].endswith(" missing"):
                score += value * (cell == "")
            else:
                score += value * min(max(float(cell or 130), *LOW[row["column"]]), HIGH)
        found.append(score)
    return found


LOW, HIGH = {"age": (20.0,), "pressure": (80.0,)}, 200.0


@pytest.mark.parametrize("kind", ["logistic", "linear"])
def test_the_csv_gives_every_prediction(kind: str, request: pytest.FixtureRequest) -> None:
    made: Made = request.getfixturevalue(kind)
    model = made.estimate().model
    file = io.StringIO()
    csv.writer(file).writerows([site.CSV_HEADER_ESTIMATES, *site.estimate_rows(model)])
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    with made.data[0].open() as data:
        people = list(csv.DictReader(data))
    encoded = made.study.contract.rows(read_table(made.data[0], made.study).rows)
    matrix = to_units(made.study, made.study.target_reach if kind == "linear" else 1.0)
    beta = np.array([each.estimate for each in model.coefficients], float)
    if kind == "linear":
        beta[-1] -= made.study.target_middle
    theta = np.linalg.solve(matrix, beta)
    exact = encoded / made.study.contract.full_norm @ theta
    if kind == "linear":
        exact = made.study.target_middle + made.study.target_reach * exact
    assert len(people) == len(exact) == 1500
    assert predictions(rows, people) == pytest.approx(exact, rel=1e-9, abs=1e-9)
    for row, found in zip(rows, model.coefficients, strict=True):
        assert float(row["std_error"]) == found.std_error
        assert row["told"] == "True"
        if kind == "logistic":
            assert float(row["ratio_high"]) == found.ratio[2]


def test_a_pool_with_sessions_is_used_and_all_else_set_aside(logistic: Made) -> None:
    made = logistic.estimate()
    assert [source.organisations for source in made.sources] == [3]
    assert made.model.n == 4503
    assert made.model.family == "logistic"
    assert "4503 rows of 3 organisations" in made.sentence
    (refusal,) = made.refusals
    assert refusal.what == "Clinic D"
    assert "moments alone" in refusal.reason
    assert made.honest
    page = unescape(site.render_estimate(made, logistic.study))
    for honest, epsilon in made.honest:
        assert f"<td>{honest}</td><td>{epsilon:.3g}</td>" in page
    assert made.sources[0].sentence in page
    assert "Who falls <ill>?" in page
    assert "Who falls <ill>?" not in site.render_estimate(made, logistic.study)
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", page)


def test_a_table_1_is_on_the_page_if_asked_for(logistic: Made) -> None:
    with_table = site.render_estimate(logistic.estimate(table=True), logistic.study)
    assert "<h2>Who the rows are about" in with_table
    assert "<h2>Who the rows" not in site.render_estimate(logistic.estimate(), logistic.study)


def test_truth_is_within_a_few_standard_errors(logistic: Made) -> None:
    """Real noise that nobody can repeat: beyond seven standard errors once in 10¹¹."""
    truth = {"age": 1 / 9, "sex=m": 0.8, "pressure": 1 / 25}
    found = {each.term.name: each for each in logistic.estimate().model.coefficients}
    for name, value in truth.items():
        each = found[name]
        assert each.estimate is not None
        assert each.std_error is not None
        assert abs(each.estimate - value) < 7 * each.std_error


def test_counts_that_were_pooled_give_rate_ratios(poisson: Made) -> None:
    model = poisson.estimate().model
    assert model.family == "poisson"
    truth = {"age": 1 / 30, "sex=m": 0.5}
    for each in model.coefficients[:2]:
        assert each.told
        assert each.estimate is not None
        assert each.std_error is not None
        assert abs(each.estimate - truth[each.term.name]) < 7 * each.std_error
        assert each.std_error < 0.5 * truth[each.term.name]
    page = site.render_estimate(poisson.estimate(), poisson.study)
    assert "rate ratio" in page
    assert "A Poisson regression of falls" in poisson.estimate().sentence


def test_counts_without_sessions_are_numbers_with_a_hint(tmp_path: Path) -> None:
    made = desks(tmp_path, study=counts(), rows=400, cap=200.0, epsilon=40.0)
    finish(made)
    whole = Made(tmp_path / "shared", counts(), made[0].pool.keyring, [])
    found = whole.estimate().model
    assert found.family == "linear"
    assert any("--kind poisson" in note for note in found.notes)


def test_moments_alone_are_refused_for_classes(tmp_path: Path) -> None:
    study = classes(epsilon=4.0)
    clinics = [clinic(tmp_path, f"C{k}", seed=k, rows=60) for k in range(3)]
    for each in clinics:
        each.publish(study, tmp_path / "out")
    ring = keyring(*clinics)
    checked = site.collect([str(tmp_path / "out")], ring, study)
    with pytest.raises(checks.InvalidInput, match="--kind logistic") as told:
        site.estimate_releases(checked, study, ring)
    assert str(told.value).count("moments alone") == 3
    with pytest.raises(checks.InvalidInput, match="target is a number"):
        site.estimate_releases(checked, study, ring, method="sites")
    with pytest.raises(checks.InvalidInput, match="of 0 files none"):
        site.estimate_releases([], study, ring)


def test_separate_releases_are_compared_site_by_site(apart: Made) -> None:
    made = apart.estimate()
    assert made.model.sites is not None
    assert made.model.n == sum(range(2000, 2500, 100))
    page = site.render_estimate(made, apart.study)
    for place, found in enumerate(made.model.coefficients):
        assert found.told
        name = f"{found.term.name}: {what_is_compared(found.term)}"
        part = page[page.index(f"<h3>{name}</h3>") :]
        expected = [
            (f"{each.name} (weight {each.weight:.0%})", each.coefficient.numbers)
            for each in made.model.sites[place]
        ]
        expected.append(("mean over sites", found.numbers))
        marks = drawn(part)[: len(expected)]
        for (label, text), (name, exact) in zip(marks, expected, strict=True):
            assert label == name
            close(text, exact)
    rows = list(site.estimate_rows(made.model))
    assert len(rows) == 2 * (1 + 5)
    together = apart.estimate(method="together").model
    assert together.sites is None
    assert together.bounded
    used = [e.trusted.release for e in apart.checked() if e.trusted is not None]
    total = NoisySums.of([each for each in used if isinstance(each, MomentsRelease)])
    assert together.noise_std == pytest.approx(total.noise_std)


def test_other_studies_and_broken_files_are_named(linear: Made) -> None:
    other = numbers(more="row_norm = 0.9\n")
    with pytest.raises(checks.InvalidInput, match="another study"):
        site.estimate_releases(linear.checked(other), other, linear.ring)


def test_a_pool_that_was_exchanged_meanwhile_is_refused(logistic: Made, tmp_path: Path) -> None:
    checked = logistic.checked()
    (place,) = logistic.folder.glob("pool-*/pooled.release")
    moved = tmp_path / "kept"
    place.rename(moved)
    try:
        place.write_bytes(moved.read_bytes()[:-2])
        with pytest.raises(checks.SudareError):
            site.estimate_releases(checked, logistic.study, logistic.ring)
    finally:
        moved.replace(place)


def test_notes_say_whether_a_pool_shows_differences() -> None:
    rng = seeded(3)
    (apart_note,) = _differences([pool(1.5, 0.5, rng)])
    assert "clearly differ" in apart_note
    (alike_note,) = _differences([pool(0.0, 3.0, rng)])
    assert "no more than chance" in alike_note
