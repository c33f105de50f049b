"""How often the intervals of a model of everybody's rows hold the coefficient they are about.

Ten organisations with 5,000 rows in all pool (δ = 1e-5). Linear models come from moments, logistic
ones from moments and two Newton sessions (shares of the budget .15, .25, .6), Poisson ones likewise
(counts to 12), each evaluated where a pool would evaluate it. Each cell has 500 simulations with
fresh rows and fresh noise, which is drawn as Gaussian noise of the pool's size; the rows are shared
between the ε. Parts are run and saved one by one (`--part logistic`): those of logistic and
Poisson cells and of real tables are newer than those of linear ones, of sites and of other methods,
which the walk of pools does not concern.

*Value* is the coverage of 95 % intervals among the coefficients that are told, intercept included;
*baseline value* is the share that is told, all others being hidden by the noise; *ratio* is the
median width over that of the same model without privacy.

- *normal*: rows normal, shortened to norm 1, as a study with `scale` near a column's deviation has
  them. *skewed*: columns of two categories (one row in two, four, ten) and numbers with a long
  tail. Outcomes follow the model in the rows as they count.
- *c = 5*: half of the organisations may collude, which takes √2 times the noise (10 columns).
- *sites differ*: each organisation's coefficients differ, by a fifth of their length in all, about
  those that the intervals are to hold. One sum cannot tell; its intervals are too short, as the
  output says. *Sites*: separate releases of ten sites, 2,000 rows each, random effects.

Aims: between .93 and .98 wherever at least a quarter is told; no single coefficient below .90 that
is told in at least a quarter of the simulations; for logistic models with 10 columns width at most
1.15 and 1.05 times (normal) or 1.5 and 1.1 times (skewed) at ε = 2 and 5.

Beside it: *ignoring noise*, the same estimates with intervals that count sampling alone;
*bootstrap*, the parametric bootstrap of Ferrando, Wang and Sheldon (2022) for linear models, where
it is defined; *one shot without privacy*, sites' own fits averaged by their inverse variances, as
one-shot methods do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from benchmarks.consortia import real, sites
from benchmarks.table import Row
from sudare.calibration import SESSION_WEIGHT, poisson_session_sensitivity, session_sensitivity
from sudare.estimation import Family, NoisySums
from sudare.estimation._coefficients import in_study_units
from sudare.estimation._models import linear_equations, session_equations
from sudare.estimation._sites import FEWEST_SITES, combine
from sudare.estimation._solving import Equations, Solved, solve
from sudare.foundations.gaussian import gaussian_mu
from sudare.foundations.randomness import Generator, seeded
from sudare.pooling import NewtonStep
from sudare.pooling._poisson import count_scale, poisson_from_moments, prior_stds
from sudare.pooling._sessions import LARGEST_POISSON, LARGEST_THETA, POISSON_WEIGHT
from sudare.pooling._sums import MomentSums, agreed_theta
from sudare.pooling._walk import bounded_step, logistic_start
from sudare.study import Study, parse_study

Array = NDArray[np.float64]
EPSILONS = (0.3, 0.5, 1.0, 2.0, 5.0)
ROWS, PARTIES, DELTA = 5000, 10, 1e-5
SEEDS = {"linear": 31000, "logistic": 32000, "poisson": 32000, "others": 31000, "real": 32000}
SPLIT = (0.15, 0.25, 0.6)
MOMENTS_SENSITIVITY = float(np.sqrt(4.25))
MOST_COUNT = 12
TOLD, LEAST = 0.25, 0.90
FAMILIES: tuple[Family, ...] = ("linear", "logistic", "poisson")
Z = 1.959963984540054
WIDTHS = {("normal", 2.0): 1.15, ("normal", 5.0): 1.05, ("skewed", 2.0): 1.5, ("skewed", 5.0): 1.1}


Part = Literal["linear", "logistic", "poisson", "others", "real"]
PARTS: tuple[Part, ...] = ("linear", "logistic", "poisson", "others", "real")


def run(quick: bool, parts: Sequence[str] = PARTS) -> list[Row]:
    """Every family, law and size; then (`others`) sites and other methods, and real tables."""
    simulations = 40 if quick else 500
    rows: list[Row] = []
    for family in FAMILIES:
        if family in parts:
            for law in ("normal", "skewed"):
                for columns in (5, 10, 20):
                    rows += _cells(family, law, columns, simulations)
    if "others" in parts:
        rows += _separate(simulations)
        rows += _bootstrapped(simulations)
        rows += _one_shot(simulations)
    if "real" in parts:
        rows += _real(simulations)
    return rows


def part_of(name: str) -> str:
    """Which part of a run makes the row of this name."""
    family = name.partition(",")[0]
    others = ("random effects", "bootstrap", "one shot without privacy")
    if family not in FAMILIES:
        return "real"
    return "others" if name.endswith(others) else family


class Drawn(NamedTuple):
    """What came of many simulations, coefficient by coefficient."""

    theta: Array
    variance: Array
    told: NDArray[np.bool_]
    sampling: Array
    """What the variance would be if there were no noise on these sums."""


class People(NamedTuple):
    """One simulated consortium: rows at most 1 long with their constant, and outcomes.

    In single precision, which is far finer than any noise.
    """

    rows: NDArray[Any]
    y: NDArray[Any]
    site: NDArray[np.int64]


class Setting(NamedTuple):
    """What is simulated."""

    family: Family
    law: str
    study: Study
    truth: Array
    """θ, for rows at most 1 long."""
    apart: float
    """Sites' coefficients differ by this share of their length."""


def _cells(family: Family, law: str, columns: int, simulations: int) -> Iterator[Row]:
    for apart in (0.0, 0.2) if columns == 10 else (0.0,):
        setting = _setting(family, law, columns, apart)
        rng = seeded(SEEDS[family] + columns + int(100 * apart))
        people = [_people(setting, ROWS, PARTIES, rng) for _ in range(simulations)]
        matrix, _ = in_study_units(setting.study, family)
        exact = np.array([_exact_variance(setting, each, matrix) for each in people])
        least = (1.0, "nothing is told")
        for colluders in (0, PARTIES // 2) if columns == 10 and not apart else (0,):
            for epsilon in EPSILONS:
                noise = np.sqrt(PARTIES / (PARTIES - colluders)) / gaussian_mu(epsilon, DELTA)
                drawn = _drawn(setting, people, noise, matrix, rng)
                title = f"{family}, {law}, {columns} columns, c = {colluders}, ε = {epsilon:g}"
                title += ", sites differ" if apart else ""
                yield from _judged(setting, title, drawn, exact, matrix, epsilon, colluders)
                if not apart:
                    least = min(least, _least(drawn, matrix @ setting.truth, title))
        if not apart:
            name = f"{family}, {law}, {columns} columns: least of a single coefficient"
            judged = simulations >= 500
            aim, ok = (f">= {LEAST}", least[0] >= LEAST) if judged else ("", None)
            yield Row(name=f"{name} ({least[1]})", value=least[0], unit="held", aim=aim, ok=ok)


def _judged(
    setting: Setting,
    title: str,
    drawn: Drawn,
    exact: Array,
    matrix: Array,
    epsilon: float,
    colluders: int,
) -> Iterator[Row]:
    truth, told = matrix @ setting.truth, drawn.told
    inside = np.abs(drawn.theta - truth) <= Z * np.sqrt(drawn.variance)
    share = float(told.mean())
    coverage = float(inside[told].mean()) if told.any() else float("nan")
    width = float(np.median(np.sqrt(drawn.variance / exact)[told])) if told.any() else None
    judged = len(told) >= 500 and share >= TOLD and not setting.apart
    yield Row(
        name=title,
        value=coverage,
        unit="held",
        baseline="told",
        baseline_value=share,
        ratio=width,
        aim="0.93 to 0.98" if judged else "",
        ok=0.93 <= coverage <= 0.98 if judged else None,
    )
    middle = len(truth) == 11 and not colluders and not setting.apart
    most = WIDTHS.get((setting.law, epsilon)) if setting.family == "logistic" else None
    if middle and most is not None and width is not None:
        yield Row(
            name=f"{title}: width",
            value=width,
            unit="× without privacy",
            aim=f"<= {most}",
            ok=width <= most if judged else None,
        )
    if middle and told.any():
        naive = np.abs(drawn.theta - truth) <= Z * np.sqrt(drawn.sampling)
        held = float(naive[told].mean())
        yield Row(name=f"{title}: ignoring noise", value=held, unit="held")


def _least(drawn: Drawn, truth: Array, title: str) -> tuple[float, str]:
    inside = np.abs(drawn.theta - truth) <= Z * np.sqrt(drawn.variance)
    found = [(1.0, "nothing is told")]
    for k, told in enumerate(drawn.told.T):
        if told.mean() >= TOLD:
            found.append((float(inside[told, k].mean()), f"coefficient {k + 1}, {title}"))
    return min(found)


def _setting(family: Family, law: str, columns: int, apart: float = 0.0) -> Setting:
    text = 'name = "x"\n'
    for k in range(columns):
        if law == "normal":
            text += f"[columns.x{k}]\nlow = -30\nhigh = 50\ncentre = 10\nscale = 8\n"
        elif k % 5 in (2, 4):
            text += f"[columns.tail{k}]\nlow = 0\nhigh = 10\ncentre = 2\nscale = 3\n"
        else:
            text += f'[columns.two{k}]\ncategories = ["no", "yes"]\n'
    text += '[target]\ncolumn = "y"\n'
    text += 'classes = ["no", "yes"]\n' if family == "logistic" else "low = -40\nhigh = 60\n"
    study = parse_study(text + "[privacy]\nepsilon = 1.0\ndelta = 1e-6\n")
    rng, share = seeded(5200 + columns), study.contract.constant / study.contract.full_norm
    direction = rng.standard_normal(columns)
    direction /= np.linalg.norm(direction)
    length = {"linear": 0.2 * np.sqrt(columns), "logistic": 5.0, "poisson": 2.0}[family]
    constant = {"linear": 0.1, "logistic": -0.6, "poisson": 0.3}[family] / share
    return Setting(family, law, study, np.append(length * direction, constant), apart)


def _people(setting: Setting, n: int, sites: int, rng: Generator) -> People:
    columns, contract = len(setting.truth) - 1, setting.study.contract
    common = rng.standard_normal((n, 1))
    pulls = np.sqrt(0.2) * common + np.sqrt(0.8) * rng.standard_normal((n, columns))
    table = pulls.copy()
    if setting.law == "skewed":
        for k in range(columns):
            if k % 5 in (2, 4):
                table[:, k] = (np.clip(np.exp(0.3 + 0.6 * pulls[:, k]), 0, 10) - 2) / 3
            else:
                rare = {0: 0.0, 1: 0.6745, 3: 1.2816}[k % 5]
                table[:, k] = np.where(pulls[:, k] > rare, 1.0, -1.0)
    rows = contract.rows(table / np.sqrt(columns)) / contract.full_norm
    site = np.arange(n) * sites // n
    length = float(np.linalg.norm(setting.truth[:-1]))
    moved = rng.standard_normal((sites, columns + 1)) * setting.apart * length / np.sqrt(columns)
    scores = np.einsum("ij,ij->i", rows, (setting.truth + moved)[site])
    if setting.family == "linear":
        y = np.clip(scores + 0.2 * rng.standard_normal(n), -1, 1)
    elif setting.family == "logistic":
        y = np.where(rng.random(n) < expit(scores), 1.0, -1.0)
    else:
        y = np.minimum(rng.poisson(np.exp(scores)), MOST_COUNT).astype(np.float64)
    return People(rows.astype(np.float32), y.astype(np.float32), site)


def _drawn(
    setting: Setting, people: list[People], noise: float, matrix: Array, rng: Generator
) -> Drawn:
    """All simulations at once; `noise` is that of a sum with sensitivity 1."""
    if setting.family == "linear":
        std = noise * MOMENTS_SENSITIVITY
        sums = _moments(setting, people, std, rng)
        equations = linear_equations(sums, setting.study, sums)
    else:
        first, last = _sessions(setting, people, noise, rng)
        equations = _stacked(setting, last)._replace(earlier=_stacked(setting, first))
    solved = solve(equations)
    return _in_units(equations, solved, matrix)


def _in_units(equations: Equations, solved: Solved, matrix: Array) -> Drawn:
    covariance = matrix @ solved.covariance @ matrix.T
    scale = np.asarray(equations.scale(solved.theta, solved.covariance, equations.hessian))
    sampling = scale[:, None, None] * np.linalg.inv(
        equations.hessian + 1e-9 * np.eye(matrix.shape[1])
    )
    told = np.hstack([~solved.hidden[:, :-1], ~solved.hidden.any(axis=1, keepdims=True)])
    return Drawn(
        solved.theta @ matrix.T,
        np.diagonal(covariance, axis1=1, axis2=2),
        told,
        np.maximum(np.diagonal(matrix @ sampling @ matrix.T, axis1=1, axis2=2), 0.0),
    )


def _moments(setting: Setting, people: list[People], std: float, rng: Generator) -> NoisySums:
    many, p = len(people), len(setting.truth)
    squares = np.array([float(each.y @ each.y) for each in people])
    sums = [_sums(each) for each in people]
    return NoisySums(
        contract=setting.study.contract,
        n=len(people[0].y),
        cross=np.array([cross for cross, _ in sums]) + std * rng.standard_normal((many, p)),
        gram=np.array([gram for _, gram in sums]) + std * _symmetric(many, p, rng),
        squares=squares + np.sqrt(2) * std * rng.standard_normal(many),
        noise_std=std,
    )


def _sums(people: People) -> tuple[Array, Array]:
    """Σyx and Σxxᵀ, remembered while the same people are looked at."""
    key = id(people.rows)
    if key not in _KEPT:
        if len(_KEPT) >= 500:
            _KEPT.clear()
        cross, gram = people.y @ people.rows, people.rows.T @ people.rows
        _KEPT[key] = (people.rows, cross.astype(np.float64), gram.astype(np.float64))
    _, cross, gram = _KEPT[key]
    return cross, gram


_KEPT: dict[int, tuple[NDArray[Any], Array, Array]] = {}
"""With the rows themselves, so that no others get their place in memory."""


def _symmetric(many: int, p: int, rng: Generator) -> Array:
    upper = np.triu(rng.standard_normal((many, p, p)))
    diagonal = np.einsum("...kk->...k", upper)
    diagonal *= np.sqrt(2)
    return upper + np.swapaxes(np.triu(upper, 1), 1, 2)


def _sessions(
    setting: Setting, people: list[People], noise: float, rng: Generator
) -> tuple[list[NewtonStep], list[NewtonStep]]:
    """Two Newton sessions, each from what the sums before it gave."""
    std = noise * MOMENTS_SENSITIVITY / np.sqrt(SPLIT[0])
    starts = _first_starts(setting, people, std, rng)
    found = [_session(setting, e, s.theta, noise / np.sqrt(SPLIT[1]), rng, s.heaviest)
             for e, s in zip(people, starts, strict=True)]  # fmt: skip
    last = [_session(setting, e, _next(setting, f), noise / np.sqrt(SPLIT[2]), rng)
            for e, f in zip(people, found, strict=True)]  # fmt: skip
    return found, last


class Start(NamedTuple):
    """Where the first session is evaluated, and at which weight it cuts rows of counts."""

    theta: Array
    heaviest: float


def _next(setting: Setting, e: NewtonStep) -> Array:
    """As a pool does it (`Board.theta`)."""
    contract, counts = setting.study.contract, setting.family == "poisson"
    share = contract.constant / contract.full_norm
    prior = prior_stds(contract, on_the_way=True) if counts else None
    noise, here = (e.noise_std, e.hessian_noise_std), (e.start, e.score, e.hessian)
    return _shortened(setting, bounded_step(*here, noise, share, prior, flattens=not counts))


def _shortened(setting: Setting, theta: Array) -> Array:
    return agreed_theta(theta, LARGEST_POISSON if setting.family == "poisson" else LARGEST_THETA)


def _first_starts(
    setting: Setting, people: list[People], std: float, rng: Generator
) -> list[Start]:
    p, contract = len(setting.truth), setting.study.contract
    share = contract.constant / contract.full_norm
    starts = []
    for each in people:
        cross, gram = _sums(each)
        if setting.family == "poisson":  # 2y/Y − 1 stands for the count
            cross = 2 * cross / MOST_COUNT - gram[:, -1] / share
        cross = cross + std * rng.standard_normal(p)
        gram = gram + std * _symmetric(1, p, rng)[0]
        n, sums = len(each.y), MomentSums(cross, gram, None, 0.0)
        if setting.family == "logistic":
            found, heaviest = logistic_start(sums, n, std, share), 1.0
        else:
            found = poisson_from_moments(sums, n, std, share, MOST_COUNT)
            heaviest = count_scale(sums, n, share, MOST_COUNT).heaviest
        starts.append(Start(_shortened(setting, found), heaviest))
    return starts


def _session(
    setting: Setting,
    people: People,
    start: Array,
    noise: float,
    rng: Generator,
    heaviest: float = float(MOST_COUNT),
) -> NewtonStep:
    p = len(start)
    scores = people.rows @ start.astype(np.float32)
    if setting.family == "logistic":
        wrong = expit(-people.y * scores)
        pulls, weights = people.y * wrong, wrong * (1 - wrong)
        length = np.ceil(4 * float(np.linalg.norm(start))) / 4
        std = noise * session_sensitivity(length, SESSION_WEIGHT)
        inside = std / SESSION_WEIGHT
    else:
        means = np.exp(np.minimum(scores, np.log(MOST_COUNT)))
        pulls, weights = people.y - means, np.minimum(means, heaviest)
        unit = noise * poisson_session_sensitivity(1.0, 1.0, POISSON_WEIGHT)
        std, inside = MOST_COUNT * unit, heaviest * unit / POISSON_WEIGHT
    return NewtonStep(
        start,
        pulls @ people.rows + std * rng.standard_normal(p),
        (people.rows * weights[:, None]).T @ people.rows + inside * _symmetric(1, p, rng)[0],
        std,
        inside,
    )


def _stacked(setting: Setting, steps: list[NewtonStep]) -> Equations:
    """Sessions of many simulations; their noises differ a little."""
    stds = np.array([each.noise_std for each in steps])
    unit = steps[0]._replace(noise_std=1.0, hessian_noise_std=1.0)
    equations = session_equations(unit, setting.study, setting.family)
    inside = np.array([each.hessian_noise_std for each in steps])
    return equations._replace(
        start=np.array([each.start for each in steps]),
        score=np.array([each.score for each in steps]),
        hessian=np.array([each.hessian for each in steps]),
        noise_variance=stds**2,
        hessian_variance=inside[:, None, None] ** 2 * equations.hessian_variance,
    )


def _exact_variance(setting: Setting, people: People, matrix: Array) -> Array:
    """Of the same model without privacy."""
    theta, gram = _maximum(setting, people, setting.truth, 2)
    left = people.y - people.rows @ theta
    scale = float((left**2).mean()) if setting.family == "linear" else 1.0
    return np.asarray(np.diag(matrix @ (scale * np.linalg.inv(gram)) @ matrix.T))


def _maximum(setting: Setting, people: People, start: Array, rounds: int) -> tuple[Array, Array]:
    """Of the likelihood, and its curvature there; ridge only to keep them finite."""
    rows, y = people.rows.astype(np.float64), people.y.astype(np.float64)
    theta, ridge = start, 1e-6 * np.eye(rows.shape[1])
    if setting.family == "linear":
        gram = rows.T @ rows + ridge
        return np.asarray(np.linalg.solve(gram, y @ rows), dtype=np.float64), gram
    gram = ridge
    for _ in range(rounds):
        scores = rows @ theta
        if setting.family == "logistic":
            mean = expit(scores)
            pulls, weights = (y + 1) / 2 - mean, mean * (1 - mean)
        else:
            mean = np.exp(scores)
            pulls, weights = y - mean, mean
        gram = (rows * weights[:, None]).T @ rows + ridge
        theta = theta + np.linalg.solve(gram, pulls @ rows - ridge @ theta)
    return theta, gram


def _separate(simulations: int) -> Iterator[Row]:
    """Ten sites of 2,000 rows with a release each: random effects, and one sum of the same."""
    for law in ("normal", "skewed"):
        for apart in (0.0, 0.2):
            setting = _setting("linear", law, 5, apart)
            rng = seeded(SEEDS["others"] + 300 + int(100 * apart))
            matrix, _ = in_study_units(setting.study, "linear")
            truth = matrix @ setting.truth
            people = [_people(setting, 20_000, 10, rng) for _ in range(simulations)]
            sites_of = [_apart(each) for each in people]
            del people
            for epsilon in EPSILONS[2:]:
                std = 2.0 / gaussian_mu(epsilon, DELTA)
                found = _of_sites(setting, sites_of, std, matrix, rng)
                kept = [pair for one in found for pair in zip(one, truth, strict=True)]
                told = [(c, true) for c, true in kept if c is not None]
                held = [abs(c[0] - true) <= c[1] for c, true in told]
                share = len(told) / len(kept)
                name = f"linear, {law}, 5 columns, ten sites, ε = {epsilon:g}"
                name += ", sites differ" if apart else ""
                judged = simulations >= 500 and share >= TOLD
                coverage = float(np.mean(held)) if told else float("nan")
                yield Row(
                    name=f"{name}: random effects",
                    value=coverage,
                    unit="held",
                    baseline="told",
                    baseline_value=share,
                    aim="0.93 to 0.98" if judged else "",
                    ok=0.93 <= coverage <= 0.98 if judged else None,
                )


def _apart(people: People) -> list[People]:
    """Each site by itself."""
    found = []
    for j in range(PARTIES):
        own = people.site == j
        found.append(People(people.rows[own], people.y[own], people.site[own]))
    return found


def _of_sites(
    setting: Setting, consortia: list[list[People]], std: float, matrix: Array, rng: Generator
) -> list[list[tuple[float, float] | None]]:
    """For each consortium and coefficient the mean over sites and half its interval, if told."""
    everyone = [site for one in consortia for site in one]
    sums = replace(_moments(setting, everyone, std, rng), squares=None)
    equations = linear_equations(sums, setting.study)
    drawn = _in_units(equations, solve(equations), matrix)
    found: list[list[tuple[float, float] | None]] = []
    for one in range(len(consortia)):
        part = slice(one * PARTIES, (one + 1) * PARTIES)
        theta, variance = drawn.theta[part], drawn.variance[part]
        some = drawn.told[part].all(axis=1)
        if some.sum() < FEWEST_SITES:
            found.append([None] * len(matrix))
            continue
        quantile = float(stats.t(some.sum() - 1).ppf(0.975))
        means = [combine(theta[some, k], variance[some, k]) for k in range(len(matrix))]
        found.append([(each.mean, quantile * float(np.sqrt(each.variance))) for each in means])
    return found


def _bootstrapped(simulations: int) -> Iterator[Row]:
    """Redraw sums from what was estimated; defined where all matrices stay positive."""
    for law in ("normal", "skewed"):
        setting, rng = _setting("linear", law, 10), seeded(SEEDS["others"] + 400)
        matrix, _ = in_study_units(setting.study, "linear")
        truth = matrix @ setting.truth
        some = simulations
        people = [_people(setting, ROWS, PARTIES, rng) for _ in range(some)]
        for epsilon in (1.0, 2.0, 5.0):
            std = MOMENTS_SENSITIVITY / gaussian_mu(epsilon, DELTA)
            sums = _moments(setting, people, std, rng)
            found = [_redrawn(sums, k, matrix, rng) for k in range(some)]
            held = [np.mean((truth >= low) & (truth <= high)) for low, high in filter(None, found)]
            yield Row(
                name=f"linear, {law}, 10 columns, c = 0, ε = {epsilon:g}: bootstrap",
                value=float(np.mean(held)) if held else float("nan"),
                unit="held",
                baseline="defined",
                baseline_value=len(held) / some,
            )


def _redrawn(
    sums: NoisySums, k: int, matrix: Array, rng: Generator, draws: int = 200
) -> tuple[Array, Array] | None:
    gram, cross, std, n = sums.gram[k], sums.cross[k], sums.noise_std, sums.n
    p = len(cross)
    if np.linalg.eigvalsh(gram)[0] <= 0:
        return None
    theta = np.linalg.solve(gram, cross)
    left = max(float(sums.squares[k] - theta @ cross) / (n - p), 0.0)
    root = np.linalg.cholesky(left * gram + 1e-12 * np.eye(p))
    noisy = gram + std * _symmetric(draws, p, rng)
    sampled = rng.standard_normal((draws, p)) @ root.T + std * rng.standard_normal((draws, p))
    again = np.linalg.solve(noisy, (gram @ theta + sampled)[..., None])[..., 0]
    moved = (again - theta) @ matrix.T
    low, high = np.quantile(moved, [0.025, 0.975], axis=0)
    value = matrix @ theta
    return value - high, value - low


def _one_shot(simulations: int) -> Iterator[Row]:
    """Sites' own logistic fits, averaged by their inverse variances: no privacy, one exchange."""
    for law in ("normal", "skewed"):
        for apart in (0.0, 0.2):
            setting, rng = _setting("logistic", law, 10, apart), seeded(SEEDS["others"] + 500)
            matrix, _ = in_study_units(setting.study, "logistic")
            truth, inside, width = matrix @ setting.truth, [], []
            for _ in range(simulations):
                people = _people(setting, ROWS, PARTIES, rng)
                exact = _exact_variance(setting, people, matrix)
                fits = []
                for j in range(PARTIES):
                    own = people.site == j
                    part = People(people.rows[own], people.y[own], people.site[own])
                    theta, gram = _maximum(setting, part, np.zeros(len(truth)), 12)
                    own_variance = np.diag(matrix @ np.linalg.inv(gram) @ matrix.T)
                    fits.append((matrix @ theta, own_variance))
                weights = np.array([1 / each for _, each in fits])
                values = np.array([value for value, _ in fits])
                mean = (weights * values).sum(axis=0) / weights.sum(axis=0)
                variance = 1 / weights.sum(axis=0)
                inside.append(np.abs(mean - truth) <= Z * np.sqrt(variance))
                width.append(np.sqrt(variance / exact))
            name = f"logistic, {law}, 10 columns{', sites differ' if apart else ''}"
            yield Row(
                name=f"{name}: one shot without privacy",
                value=float(np.mean(inside)),
                unit="held",
                ratio=float(np.median(width)),
            )


def _real(simulations: int) -> Iterator[Row]:
    """Real tables of many sites: do intervals hold the estimate of all rows without privacy?

    Intervals count sampling as well, so that they should hold it more often than the truth.
    """
    draws = max(simulations // 5, 4)
    found = [*sites.site_studies(), *(each for each in real.studies() if "heart" in each.name)]
    for each in found:
        consortium = each.deal(0)
        contract = consortium.contract
        family: Family = "linear" if contract.task == "regression" else "logistic"
        setting = _setting(family, "normal", contract.features)
        X, y = consortium.pooled()
        rows = contract.rows(X) / contract.full_norm
        targets = contract.targets(y) / (contract.target_bound or 1.0)
        people = People(rows, targets, np.zeros(len(targets), dtype=np.int64))
        p = rows.shape[1]
        matrix, rng = np.eye(p), seeded(SEEDS["real"] + 600)
        exact, _ = _maximum(setting, people, np.zeros(p), 25)
        for epsilon in (1.0, 2.0, 5.0):
            noise = 1 / gaussian_mu(epsilon, DELTA)
            drawn = _drawn(setting, [people] * draws, noise, matrix, rng)
            inside = np.abs(drawn.theta - exact) <= Z * np.sqrt(drawn.variance)
            told = drawn.told
            yield Row(
                name=f"{each.name}, {len(targets)} rows, {p - 1} features, ε = {epsilon:g}",
                value=float(inside[told].mean()) if told.any() else float("nan"),
                unit="hold the estimate without privacy",
                baseline="told",
                baseline_value=float(told.mean()),
            )
