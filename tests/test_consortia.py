"""The judges of blending: consortia, simulated releases, and private gradient descent."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

from benchmarks import blending_real, pooling_harm
from benchmarks.consortia import Consortium, learners, moments, regression
from benchmarks.consortia.gradients import gradient_descent
from benchmarks.consortia.information import worth
from benchmarks.consortia.pooled import pooled_sum
from benchmarks.consortia.real import studies
from benchmarks.consortia.realistic import FEWEST_JUDGED, KINDS, dealt, drawn, here
from benchmarks.consortia.sessions import gradient_sessions
from benchmarks.consortia.sites import FEWEST, TABLES, missing_sites, read_sites, site_studies
from benchmarks.consortia.synthetic import SCENARIOS, Scenario, synthetic
from benchmarks.pooling_accuracy import EPSILONS, Task, judge, measured, report
from sudare.foundations.randomness import seeded
from sudare.learners import MomentsClassifier
from sudare.releases import MomentsRelease
from sudare.study import Categories, Column, Number
from tests.statistical import only_fits


def consortia() -> list[Consortium]:
    return [
        *(synthetic(scenario, 3, 0) for scenario in SCENARIOS),
        *(study.deal(0) for study in [*studies(), *site_studies()]),
    ]


@pytest.mark.parametrize("consortium", consortia(), ids=lambda c: c.name)
def test_rows_are_within_the_contract(consortium: Consortium) -> None:
    for X, y in [(consortium.test_X, consortium.test_y), *consortium.others, consortium.pooled()]:
        assert X.shape == (len(y), consortium.contract.features)
        assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
        consortium.contract.targets(y)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_seed_gives_the_same_rows(scenario: Scenario) -> None:
    one, again, another = (synthetic(scenario, 3, seed) for seed in (5, 5, 6))
    assert np.array_equal(one.test_X, again.test_X)
    assert not np.array_equal(one.test_X, another.test_X)


def test_simulated_moments_are_what_the_learner_releases() -> None:
    whole = synthetic("iid", 3, 0)
    X, y = whole.others[0]
    small = replace(whole, others=[(X, y)], tampering=None)

    def both(epsilon: float) -> tuple[MomentsRelease, MomentsRelease]:
        learner = MomentsClassifier(epsilon, delta=1e-5, row_norm=1.0, classes=(0, 1), rng=0)
        released = learner.fit(X, y).release(party="organisation 1")
        assert isinstance(released, MomentsRelease)
        return moments(small, epsilon, 0)[0], released

    simulated, released = both(1.0)
    assert simulated.contract == released.contract
    assert (simulated.n, simulated.event) == (released.n, released.event)
    assert simulated.noise_std == released.noise_std
    draws = np.array([moments(small, 1.0, seed)[0].gram for seed in range(400)])
    spread = draws.std(axis=0, ddof=1) / released.noise_std
    on_diagonal = np.equal(*np.triu_indices(4))
    # Standard deviations of 400 draws are off by 4 % or so.
    assert np.allclose(spread, np.where(on_diagonal, np.sqrt(2), 1), rtol=0.15)

    simulated, released = both(1e9)
    assert np.allclose(simulated.cross, released.cross, atol=0.02)
    assert np.allclose(simulated.gram, released.gram, atol=0.02)


def test_hostile_organisations_tamper_with_their_releases() -> None:
    honest, flipped = synthetic("iid", 3, 0), synthetic("flipped", 3, 0)
    assert (honest.factors() == 1).all()
    assert (flipped.factors() == -1).sum() == 20
    truthful = replace(flipped, tampering=None)
    for publish in (moments, learners):
        for said, meant, factor in zip(
            publish(flipped, 1.0, 0), publish(truthful, 1.0, 0), flipped.factors(), strict=True
        ):
            name = "cross" if publish is moments else "coefficients"
            assert np.allclose(getattr(said, name), factor * np.array(getattr(meant, name)))


def test_gradient_descent_without_noise_nears_the_pooled_fit() -> None:
    consortium = synthetic("iid", 3, 0)
    rows = consortium.contract.rows(consortium.test_X)
    pooled = LogisticRegression(C=1e3).fit(*consortium.pooled())
    best = pooled.score(consortium.test_X, consortium.test_y)

    def share_correct(epsilon: float) -> float:
        theta = gradient_descent(consortium, epsilon, 0, 16.0)
        return float(np.mean((rows @ theta > 0) == consortium.test_y))

    assert share_correct(1e9) > best - 0.01
    assert share_correct(0.01) < best - 0.05


def test_releases_are_worth_more_with_less_noise() -> None:
    consortium = synthetic("iid", 3, 0)
    shares = [worth(consortium, epsilon) for epsilon in (0.01, 0.1, 1.0, 10.0, 1e9)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.05
    assert 0.95 < shares[-1] < 1


def _write_table(path: Path, name: str, sizes: dict[int, int], seed: int = 0) -> None:
    """Made-up rows under the columns of a real table; numbers leave their bounds at times."""
    sites, rng = TABLES[name], seeded(seed)
    target = sites.target

    def cell(column: Column) -> str:
        if isinstance(column, Number):
            return f"{rng.normal(column.middle, 2 * column.reach):.4f}"
        labels = [str(label) for label in column.categories]
        return str(rng.choice(labels if column.missing is None else ["", *labels[1:]]))

    outcome: Column
    if target.classes is None:
        assert target.low is not None
        assert target.high is not None
        outcome = Number(low=target.low, high=target.high)
    else:
        outcome = Categories(categories=target.classes)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["rownames", sites.site, *sites.columns, target.column])
        for site, size in sizes.items():
            for _ in range(size):
                cells = [cell(column) for column in (*sites.columns.values(), outcome)]
                writer.writerow([0, site, *cells])


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_many_sites_are_read_within_public_bounds(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.csv"
    _write_table(path, name, {3: FEWEST + 5, 12: FEWEST})
    tables = read_sites(path, TABLES[name])
    assert [len(y) for _, y in tables] == [FEWEST + 5, FEWEST]
    for X, y in tables:
        norms = np.linalg.norm(X, axis=1)
        assert norms.mean() > 0.1
        assert norms.max() <= 1
        if TABLES[name].target.classes:
            assert set(y) == {0, 1}
        else:
            assert np.abs(y).max() <= 1
            assert y.std() > 0.1


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        # Small ones together, in the order of their numbers; the rest joins the last group.
        ({1: 25, 2: 8, 3: 30, 4: 13, 10: 4}, [25, 30, 25]),
        ({1: 8, 2: 13, 3: 12, 4: 9, 5: 30}, [30, 21, 21]),
        # Too few small rows for a group: they join the last site.
        ({1: 25, 2: 3, 3: 40}, [25, 43]),
        ({1: 3, 2: 4}, [7]),
    ],
)
def test_small_sites_are_put_together(
    tmp_path: Path, sizes: dict[int, int], expected: list[int]
) -> None:
    path = tmp_path / "Chem97.csv"
    _write_table(path, "Chem97", sizes)
    assert [len(y) for _, y in read_sites(path, TABLES["Chem97"])] == expected


def test_every_site_has_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {1: 30, 2: 40, 3: 50}
    _write_table(tmp_path / "sites" / "Contraception.csv", "Contraception", sizes)
    monkeypatch.setenv("SUDARE_DATA", str(tmp_path))
    (study,) = site_studies()
    assert study.name == "Contraception"
    assert missing_sites() == [name for name in TABLES if name != "Contraception"]
    dealt = [study.deal(seed) for seed in range(3)]
    for consortium in dealt:
        own, test = len(consortium.own_y), len(consortium.test_y)
        assert own == int(0.7 * (own + test))
        assert sorted([own + test, *(len(y) for _, y in consortium.others)]) == [30, 40, 50]
    assert sorted(len(c.own_y) + len(c.test_y) for c in dealt) == [30, 40, 50]


def test_tables_that_are_not_here_are_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDARE_DATA", raising=False)
    assert site_studies() == []
    assert missing_sites() == list(TABLES)


@pytest.mark.parametrize("colluders", [0, 50])
def test_a_pooled_sum_has_one_noise_for_all(colluders: int) -> None:
    consortium = synthetic("iid", 5, 0)
    exact = pooled_sum(consortium, 1e9, 0)
    single = moments(consortium, 0.7, 0)[0].noise_std
    # One more number, which one row moves by 0.6 where all others together are moved by 2.
    expected = single * np.hypot(2, 0.6) / 2 * np.sqrt(100 / (100 - colluders))
    on_diagonal = np.where(np.equal(*np.triu_indices(6)), np.sqrt(2), 1.0)
    found = []
    for seed in range(1000):
        total = pooled_sum(consortium, 0.7, seed, colluders=colluders)
        assert total.noise_std == pytest.approx(expected, rel=1e-3)
        noise = [total.cross - exact.cross, (total.gram - exact.gram) / on_diagonal]
        single_numbers = [(total.squares - exact.squares) / np.sqrt(2)]
        single_numbers.append((total.apart - exact.apart) / 4)
        found.append(np.concatenate([*noise, single_numbers]))
    assert only_fits(np.concatenate(found) / expected, norm.cdf, off=0.1)


def test_own_rows_can_be_taken_off_a_pooled_sum() -> None:
    consortium = synthetic("iid", 3, 0)
    others = pooled_sum(consortium, 1e9, 0).without((consortium.own_X, consortium.own_y))
    separate = moments(consortium, 1e9, 0)
    assert others.n == sum(release.n for release in separate) == 4950
    cross = np.sum([release.cross for release in separate], axis=0)
    gram = np.sum([release.gram for release in separate], axis=0)
    assert np.allclose(others.release(1e9).cross, cross, atol=0.1)
    assert np.allclose(others.release(1e9).gram, gram, atol=0.1)
    assert others.squares == pytest.approx(4950, abs=0.1)
    squares = [min(float(np.sum(np.square(release.cross))), 625.0) for release in separate]
    assert others.apart == pytest.approx(sum(squares) / 50, abs=0.3)


def test_gradient_sessions_without_noise_near_the_pooled_fit() -> None:
    consortium = synthetic("iid", 3, 0)
    rows = consortium.contract.rows(consortium.test_X)
    pooled = LogisticRegression(C=1e3).fit(*consortium.pooled())
    best = pooled.score(consortium.test_X, consortium.test_y)

    def share_correct(epsilon: float) -> float:
        theta = gradient_sessions(consortium, epsilon, 0).theta
        return float(np.mean((rows @ theta > 0) == consortium.test_y))

    assert share_correct(1e9) > best - 0.01
    assert share_correct(0.002) < best - 0.05


def test_scores_of_the_pooling_benchmark_are_those_of_scikit_learn() -> None:
    consortium = synthetic("iid", 3, 0)
    scores = np.round(consortium.test_X[:, 0], 1)  # with ties
    found = dict(measured(consortium, scores))
    truth = consortium.test_y
    shares = {name: tally.got / tally.total for name, tally in found.items()}
    assert shares == {
        "accuracy": pytest.approx(accuracy_score(truth, scores > 0)),
        "AUC": pytest.approx(roc_auc_score(truth, scores)),
    }
    # Of numbers, against the mean of all training targets: here that of the test rows, for once.
    others = [(X, np.full(len(y), truth.mean())) for X, y in consortium.others]
    numbers = replace(
        consortium,
        contract=regression(3, 1.0),
        own_y=np.full(len(consortium.own_y), truth.mean()),
        others=others,
    )
    ((name, tally),) = measured(numbers, scores)
    assert name == "R²"
    assert tally.got / tally.total == pytest.approx(r2_score(truth, scores))


def test_the_pooling_benchmark_finds_what_pooling_gains() -> None:
    task = Task("synthetic, d = 5", 3)
    rows = {row.name: row for row in report({task: judge(task)})}
    aim = rows["gap closed, synthetic, d = 5, in the blend, c = 0, ε = 0.3"]
    assert aim.aim == ">= 0.85"
    assert aim.ok == (aim.value >= 0.85)
    # At ε = 0.3 separate releases of fifty rows are almost nothing, and their sum almost all.
    blended = rows["synthetic, d = 5: AUC gap closed, in the blend, c = 0"].baseline
    separate = rows["synthetic, d = 5: AUC gap closed, separate"].baseline
    assert blended is not None
    assert separate is not None
    at = EPSILONS.index(0.3)
    gained, alone = (float(text.split(" / ")[at].split()[0]) for text in (blended, separate))
    assert gained > alone + 0.2


def test_the_harm_benchmark_counts_runs_below_own() -> None:
    task = pooling_harm.Task("iid", 5, 3)
    rows = pooling_harm.report({task: pooling_harm.judge(task)})
    assert rows[0].name == "more than 1 below own, of 12 runs"
    assert "mean gain, iid, d = 5" in rows[-1].name
    assert rows[-1].value > 0
    gains = [
        pooling_harm.Gain(1.0, (-1.5, -1.0), 0.0),
        pooling_harm.Gain(2.0, (-2.5, 3.0), -1.1),
    ]
    below_one, below_two, worst, law = pooling_harm.report({task: gains})
    assert (below_one.value, below_two.value, worst.value) == (50.0, 25.0, -2.5)
    assert below_one.baseline == "separate 50.00 of 2"
    assert law.value == -0.5


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_consortia_are_unlike_a_sphere(kind: str) -> None:
    """Rare levels, unequal sizes, both classes; a seed gives the same rows."""
    made, again = drawn(kind, 40, 3), drawn(kind, 40, 3)
    assert np.array_equal(made.test_X, again.test_X)
    assert len(made.own_y) == 40
    sizes = [len(y) for _, y in made.others]
    assert max(sizes) > 4 * min(sizes)
    X, y = made.pooled()
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
    assert 0.05 < y.mean() < 0.7
    # Rows beyond the norm are shortened, so a column of two values holds a few more.
    counts = [np.unique(np.round(x, 9), return_counts=True)[1] for x in made.test_X.T]
    two_valued = [np.sort(each)[-2:].sum() > 0.5 * len(made.test_y) for each in counts]
    assert 1 < sum(two_valued) < made.contract.features


def test_organisations_differ_as_their_kind_says() -> None:
    """Shares of the outcome vary between large organisations where levels do, beyond sampling."""
    beyond = {}
    for kind in ("alike", "intercepts"):
        spread = []
        for seed in range(6):
            many = [y for _, y in drawn(kind, 10, seed).others if len(y) > 60]
            shares = np.array([y.mean() for y in many])
            sampling = np.mean([y.mean() * (1 - y.mean()) / len(y) for y in many])
            spread.append(shares.var(ddof=1) - sampling)
        beyond[kind] = np.mean(spread)
    assert beyond["intercepts"] > 0.008 > beyond["alike"]


def test_a_table_is_dealt_with_as_many_own_rows_as_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {k: 30 + k for k in range(12)}
    _write_table(tmp_path / "sites" / "guImmun.csv", "guImmun", sizes)
    monkeypatch.setenv("SUDARE_DATA", str(tmp_path))
    assert here("guImmun")
    assert not here("Exam")
    assert not here("Pima")
    made = dealt("guImmun", 50, 1)
    assert made is not None
    assert len(made.own_y) == 50
    assert len(made.test_y) >= FEWEST_JUDGED
    others = sum(len(y) for _, y in made.others)
    assert 50 + len(made.test_y) + others == sum(sizes.values())
    assert dealt("guImmun", 300, 1) is None


def test_the_real_benchmark_judges_beside_the_simple_ways() -> None:
    tasks = [blending_real.Task("alike", 40, seed) for seed in (0, 1)]
    found = blending_real.judge_all([*tasks, *blending_real.harm_tasks([0])[:1]], 1)
    assert len(found) == 3 * len(blending_real.EPSILONS)
    assert found[tasks[0], 1.0].keys() == {
        *blending_real.RIVALS,
        "blend",
        "cv",
        "interval",
    }
    rows = {row.name: row for row in blending_real.report(found)}
    assert rows["more than 1 below own, of 4 runs"].value == 0
    cell = rows["log loss, 40 own rows, ε = 5"]
    assert cell.baseline is not None
    assert "mirror" in cell.baseline
    blend = np.mean([found[task, 5.0]["blend"]["log loss"] for task in tasks])
    assert cell.value == pytest.approx(blend)
    best = min(
        np.mean([found[task, 5.0][way]["log loss"] for task in tasks])
        for way in blending_real.RIVALS
    )
    assert f"{best:.4f}" in cell.baseline


def test_a_cell_is_missed_by_more_than_a_standard_error() -> None:
    def scores(blend: float, best: float) -> blending_real.Scores:
        ways = {way: {"AUC": 0.5} for way in blending_real.RIVALS} | {"sum": {"AUC": best}}
        return ways | {"blend": {"AUC": blend}}

    (even,) = blending_real._rivals_row("x", "AUC", [scores(0.70, 0.72), scores(0.76, 0.75)])
    (worse,) = blending_real._rivals_row("x", "AUC", [scores(0.70, 0.72), scores(0.73, 0.75)])
    assert even.ok
    assert worse.ok is False
    assert list(blending_real._rivals_row("x", "AUC", [scores(0.7, 0.7)])) == []
