"""What every private learner must do, whatever it learns; and the laws of what it publishes.

`check_learner` is handed a way to make a learner and data for it, and goes through the promises of
`sudare.learners`: the guarantee is known before a row is read, the noise is decided by public
numbers, what survives `fit` is sealed, one row has a bounded effect, and all of scikit-learn works
around it. Draws are seeded, except where secure randomness is the point: there a right learner
fails with probability below 1e-9 (`check_secure_by_default`).
"""

import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest
import scipy.sparse
from scipy.special import expit, ndtr
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from sudare.audit import audit_exact
from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import account
from sudare.foundations.randomness import seeded
from sudare.learners import PublicScaler
from sudare.learners import _base as base
from sudare.learners import _linear as linear
from sudare.releases import MomentsRelease

Make = Callable[..., Any]
"""Keyword arguments to an unfitted learner; without any, one with rng=0."""


def check_learner(make: Make, table: Any, target: Any) -> None:
    """All checks below; `table` has at least 20 rows and 2 columns, within the learner's bounds."""
    for check in CHECKS:
        check(make, table, target)


def check_plan(make: Make, table: Any, target: Any) -> None:
    """The guarantee is known without data and is what `fit` spends."""
    learner = make()
    most, planned = learner.plan(), learner.plan_for(*np.shape(table))
    fitted = learner.fit(table, target)
    assert fitted is learner
    assert learner.event_ == learner.plan_for(*np.shape(table)) == planned
    assert learner.guarantee_ == account([planned], learner.delta)
    assert learner.guarantee_.epsilon() <= account([most], learner.delta).epsilon() * (1 + 1e-9)
    assert learner.guarantee_.epsilon() <= learner.epsilon * (1 + 1e-9)
    assert learner.guarantee_.delta(learner.epsilon * (1 + 1e-9)) <= learner.delta * (1 + 1e-6)
    for name, value in {"epsilon": -1.0, "delta": 1.0, "row_norm": 0.0}.items():
        with pytest.raises(InvalidInput, match=name):
            make(**{name: value}).fit(table, target)
    with pytest.raises(InvalidInput, match=r"row_norm: .*longer rows are shortened"):
        make(row_norm=None).fit(table, target)
    for extreme in (1e-31, 1e31):
        with pytest.raises(InvalidInput, match=r"row_norm.*between 1e-30 and 1e30"):
            make(row_norm=extreme).fit(table, target)


def check_secure_by_default(make: Make, table: Any, target: Any) -> None:
    """Two fits differ. Noise that comes out the same on every coordinate has odds below 1e-9:
    the seal alone spreads each of at least three coordinates over more than 1,000 steps.
    """
    one, two = (make(rng=None).fit(table, target).sealed_ for _ in range(2))
    assert len(one.steps) >= 3
    assert one.steps != two.steps
    assert not one.simulated
    assert not two.simulated


def check_seeds_simulate(make: Make, table: Any, target: Any) -> None:
    one, again, other = (make(rng=seed).fit(table, target).sealed_ for seed in (5, 5, 6))
    assert one == again
    assert one.steps != other.steps
    assert one.simulated
    assert make(rng=seeded(5)).fit(table, target).sealed_ == one


def check_only_sealed_values_survive(make: Make, table: Any, target: Any) -> None:
    learner = make().fit(table, target)
    sealed = learner.sealed_
    assert all(isinstance(step, int) for step in sealed.steps)
    steps = np.ldexp(sealed.values, -sealed.grid_exponent)
    assert (steps == np.rint(steps)).all()
    assert sealed.grid_exponent == learner.noise_.seal.grid_exponent
    assert not hasattr(learner, "n_clipped_")
    held = [value for value in vars(learner).values() if isinstance(value, np.ndarray)]
    assert held
    assert all(len(table) not in value.shape for value in held)


def check_noise_is_public(make: Make, table: Any, target: Any) -> None:
    """Other data of the same shape: the same noise; one row less: another recipe."""
    learner = make()
    one = learner.fit(table, target).noise_
    assert learner.fit(np.roll(table, 1, axis=1) * 0.1 - 1, np.roll(target, 3)).noise_ == one
    assert learner.fit(table[:-1], target[:-1]).noise_ != one


def check_rows_are_bounded(make: Make, table: Any, target: Any) -> None:
    """A row counts by its direction alone once it is long; nothing but rounding tells 1e300."""
    learner = make()
    limit = learner.row_norm
    direction = np.ones(table.shape[1]) / np.sqrt(table.shape[1])

    def values(first_row: Any) -> Any:
        changed = table.copy()
        changed[0] = first_row
        before = changed.copy()
        sealed = learner.fit(changed, target).sealed_.values
        assert (changed == before).all()
        return sealed

    seal = learner.fit(table, target).noise_.seal
    step = 2.0**seal.grid_exponent * np.sqrt(seal.dimension)
    same = 4 * (seal.displacement + step)
    at_limit = values(direction * limit)
    for length in (limit * 1.5, 1e30, 1e100, 1e160, 1e300):
        assert np.linalg.norm(values(direction * length) - at_limit) <= same
    largest = np.full(table.shape[1], np.finfo(float).max)
    assert np.linalg.norm(values(largest) - at_limit) <= same
    at_zero = values(np.zeros(table.shape[1]))
    for length in (1e-300, 5e-324):
        assert np.linalg.norm(values(direction * length) - at_zero) <= same
    assert np.linalg.norm(at_zero - at_limit) > same  # it is not that nothing matters


def check_row_order(make: Make, table: Any, target: Any) -> None:
    learner = make()
    one = learner.fit(table, target).sealed_.values
    seal = learner.noise_.seal
    order = np.random.default_rng(0).permutation(len(table))
    two = learner.fit(table[order], target[order]).sealed_.values
    step = 2.0**seal.grid_exponent * np.sqrt(seal.dimension)
    assert np.linalg.norm(one - two) <= 2 * (seal.displacement + step)


def check_weights_are_refused(make: Make, table: Any, target: Any) -> None:
    with pytest.raises(InvalidInput, match=r"no sample_weight: .*more than the noise covers"):
        make().fit(table, target, sample_weight=np.ones(len(table)))
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        make().fit(table, target, weights=1)
    make().fit(table, target, sample_weight=None)


def check_frames(make: Make, table: Any, target: Any) -> None:
    """pandas and polars frames, with their names; a frame of other columns is refused."""
    names = [f"column {k}" for k in range(table.shape[1])]
    plain = make().fit(table, target)
    frames: list[Any] = [
        pd.DataFrame(table, columns=pd.Index(names)),
        pl.DataFrame(dict(zip(names, table.T, strict=True))),
    ]
    for frame in frames:
        learner = make().fit(frame, target)
        assert list(learner.feature_names_in_) == names
        assert (learner.coef_ == plain.coef_).all()
        assert pd.Series(learner.predict(frame)).tolist() == pytest.approx(
            pd.Series(plain.predict(table)).tolist()
        )
        with pytest.raises(ValueError, match="feature names should match"):
            learner.predict(frame[names[::-1]])
    series = make().fit(frames[0], pd.Series(target))
    assert (series.coef_ == plain.coef_).all()


def check_number_types(make: Make, table: Any, target: Any) -> None:
    """Other numbers are read as the floats they are; sparse tables are refused, not densified."""
    whole = np.rint(table * 3).astype(np.int64)
    small = table.astype(np.float32)
    for given in (whole, small, small.astype(np.float16), np.asfortranarray(table)):
        same = make().fit(np.ascontiguousarray(given, dtype=np.float64), target).coef_
        assert (make().fit(given, target).coef_ == same).all()
        assert (make().fit(given.tolist(), target).coef_ == same).all()
    with pytest.raises(TypeError, match="dense data is required"):
        make().fit(scipy.sparse.csr_array(table), target)


def check_pickling(make: Make, table: Any, target: Any) -> None:
    learner = make().fit(table, target)
    file = io.BytesIO()
    joblib.dump(learner, file)
    file.seek(0)
    again = joblib.load(file)
    assert (again.predict(table) == learner.predict(table)).all()
    for name in ("guarantee_", "event_", "noise_", "sealed_"):
        assert getattr(again, name) == getattr(learner, name)


def check_notebooks(make: Make, table: Any, target: Any) -> None:
    """What a notebook shows: the guarantee in words, and whether the noise was simulated."""
    learner = make()
    assert "Privacy." not in learner._repr_html_()
    learner.fit(table, target)
    for shown in (learner._repr_html_(), learner._repr_mimebundle_()["text/html"]):
        assert "Whatever anyone concludes" in shown
        assert "replace-one" in shown
        assert "Simulated noise: not a release" in shown
    released = make(rng=None).fit(table, target)
    assert "Whatever anyone concludes" in released._repr_html_()
    assert "Simulated" not in released._repr_html_()


def check_around_it(make: Make, table: Any, target: Any) -> None:
    """Cloning, parameters, pipelines, cross-validation and grid search."""
    learner = make(epsilon=3.0)
    copy = clone(learner)
    assert copy.get_params() == learner.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(table)
    one = learner.fit(table, target).noise_
    learner.set_params(epsilon=30.0).fit(table, target)
    assert learner.noise_ != one
    assert learner.guarantee_.epsilon() > 3.0
    scaled = make_pipeline(PublicScaler(-4.0, 4.0), make(row_norm=1.0, epsilon=1e4))
    assert np.isfinite(cross_val_score(scaled, table, target, cv=3, error_score="raise")).all()
    name = scaled.steps[-1][0]
    grid = {f"{name}__epsilon": [0.5, 5.0]}
    search = GridSearchCV(scaled, grid, cv=2, error_score="raise").fit(table, target)
    assert search.best_params_[f"{name}__epsilon"] in (0.5, 5.0)
    assert search.predict(table).shape == (len(table),)


def check_bad_data(make: Make, table: Any, target: Any) -> None:
    """Each is refused with words for it, and without a value of the data."""
    fitted = make().fit(table, target)
    for bad_table, bad_target, words in bad_data(table, target, is_classifier(fitted)):
        with pytest.raises((ValueError, TypeError), match=words) as problem:
            make().fit(bad_table, bad_target)
        assert str(table[0, 0])[:6] not in str(problem.value)
    for bad_table, words in (
        (table[:, :-1], "expecting"),
        (table[0], "Reshape your data"),
        (table * np.nan, "NaN"),
        (np.full(table.shape, "text"), "text"),
    ):
        with pytest.raises(ValueError, match=words) as problem:
            fitted.predict(bad_table)
        assert str(table[0, 0])[:6] not in str(problem.value)


def bad_data(table: Any, target: Any, classes: bool) -> Iterator[tuple[Any, Any, str]]:
    """Tables and targets that no learner takes, with what the refusal must say."""
    with_nan, with_inf = table.copy(), table.copy()
    with_nan[1, 0], with_inf[2, 1] = np.nan, np.inf
    yield with_nan, target, "NaN"
    yield with_inf, target, "infinity"
    yield table[:0], target[:0], "0 sample"
    yield table[:, :0], target, "0 feature"
    yield table, target[:-1], "inconsistent numbers of samples"
    yield table, None, "requires y"
    yield table[:, 0], target, "Reshape your data"
    yield table[None], target, "dim 3"
    yield table + 0j, target, "Complex data not supported"
    yield np.full(table.shape, "text"), target, "a column holds text"
    mixed = table.astype(object)
    mixed[3, 1] = "text"
    yield mixed, target, "a column holds text"
    mixed = table.astype(object)
    mixed[3, 1] = 10**400
    yield mixed, target, "too large"
    yield pd.DataFrame({"a": ["text"] * len(table), "b": table[:, 0]}), target, "holds text"
    yield table, np.column_stack([target, target]), "1d array"
    if classes:
        yield table, np.arange(len(table)) % 3, "Only binary classification"
        yield table, np.zeros(len(table)), "two classes"
        yield table, np.linspace(0, 1, len(table)), "Unknown label type"
        labels = np.array(["text", 1.5] * len(table), dtype=object)[: len(table)]
        yield table, labels, "labels of one type"
    else:
        yield table, np.full(len(table), "text"), "only numbers"
        yield table, np.where(np.arange(len(table)) == 1, np.nan, 0.5), "NaN"
        yield table, np.full(len(table), np.inf), "infinity"


def check_release(make: Make, table: Any, target: Any) -> None:
    """What others receive says the same as the learner, holds public numbers only, and is marked
    when it was simulated; coefficients keep within their ball and the slack."""
    with pytest.raises(NotFittedError):
        make().release("Clinic A")
    learner = make().fit(table, target)
    release = learner.release("Clinic A")
    assert (release.party, release.n, release.event) == ("Clinic A", len(table), learner.event_)
    assert release.simulated
    assert not make(rng=None).fit(table, target).release("Clinic A").simulated
    contract = release.contract
    rows = contract.rows(np.asarray(table))
    if isinstance(release, MomentsRelease):
        np.testing.assert_array_equal(release.cross_vector, learner.cross_)
        np.testing.assert_allclose(release.gram_matrix, learner.gram_, rtol=1e-15)
        scaled = rows / contract.full_norm
        exact = contract.targets(target) / (contract.target_bound or 1.0) @ scaled
        assert np.abs(release.cross_vector - exact).max() <= 6 * release.noise_std
    else:
        inside = np.asarray(table)
        scores = inside @ release.theta[: inside.shape[1]]
        scores = scores + (release.theta[-1] * contract.constant if contract.constant else 0.0)
        told = learner.decision_function(table) if is_classifier(learner) else None
        told = learner.predict(table) if told is None else told
        np.testing.assert_allclose(scores, told, rtol=1e-9, atol=1e-12)
        assert np.linalg.norm(release.theta) <= release.radius + release.slack


CHECKS: list[Callable[[Make, Any, Any], None]] = [
    check_plan,
    check_secure_by_default,
    check_seeds_simulate,
    check_only_sealed_values_survive,
    check_noise_is_public,
    check_rows_are_bounded,
    check_row_order,
    check_weights_are_refused,
    check_frames,
    check_number_types,
    check_pickling,
    check_notebooks,
    check_around_it,
    check_bad_data,
    check_release,
]


def check_scikit_learn(learner: Any) -> None:
    """scikit-learn's own checks, all of them; it leaves out one that needs a setting of SciPy's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks provoke some
        results = check_estimator(learner, on_skip=None, on_fail=None)
    assert len(results) > 40
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    left_out = {r["check_name"] for r in results if r["status"] != "passed"}
    assert left_out <= {"check_array_api_input"}


# --- Laws: what a fit's output looks like from outside, written down from the recipe alone ---


class ObjectiveLaw:
    """Law of the minimiser of a perturbed objective, in one or two dimensions.

    The minimiser θ inside the ball belongs to exactly one b = −G(θ), so its density is that of b
    times |det G'|; in one dimension whatever would leave the ball sits at its two ends.
    """

    def __init__(self, loss: "Loss", recipe: Any, factor: float = 1.0) -> None:
        """`factor` scales the noise, to see what an audit makes of too little of it."""
        self._loss, self._recipe, self._scale = loss, recipe, recipe.scale * factor
        self._radius = recipe.tolerance.radius

    def log_density(self, theta: Any) -> Any:
        points = theta[:, None] if theta.ndim == 1 else theta
        gradient, hessian = self._loss(points)
        kappa, s = self._recipe.curvature, self._scale
        p = points.shape[1]
        b = np.sqrt(((gradient + kappa * points) ** 2).sum(axis=1))
        if self._recipe.law == "gamma":
            log_noise = -b / s - np.log({1: 2 * s, 2: 2 * np.pi * s * s}[p])
        else:
            log_noise = -((b / s) ** 2) / 2 - p / 2 * np.log(2 * np.pi * s * s)
        bend = hessian[:, 0, 0] + kappa
        if p == 2:
            bend = bend * (hessian[:, 1, 1] + kappa) - hessian[:, 0, 1] ** 2
        return log_noise + np.log(bend)

    def ends(self) -> tuple[float, float]:
        """P(θ = −radius) and P(θ = radius), in one dimension."""
        below = self.distribution(np.array([-self._radius]))[0]
        above = 1 - self.distribution(np.array([self._radius]), closed=False)[0]
        return float(below), float(above)

    def distribution(self, theta: Any, closed: bool = True) -> Any:
        """P(θ ≤ t) in one dimension; up to, not including, the upper end with `closed` false."""
        gradient, _ = self._loss(theta.reshape(-1, 1))
        pull = gradient[:, 0] + self._recipe.curvature * theta
        reached = self._noise_distribution(pull)
        return np.where(theta >= self._radius, 1.0, reached) if closed else reached

    def _noise_distribution(self, b: Any) -> Any:
        if self._recipe.law == "gaussian":
            return ndtr(b / self._scale)
        tail = np.exp(-np.abs(b) / self._scale) / 2
        return np.where(b < 0, tail, 1 - tail)


Loss = Callable[[Any], tuple[Any, Any]]
"""θ, a row for each, to gradients (m, p) and Hessians (m, p, p) of the summed loss."""


def squared_loss(table: Any, target: Any) -> Loss:
    def loss(theta: Any) -> tuple[Any, Any]:
        gradient = 2 * (theta @ table.T - target) @ table
        return gradient, np.broadcast_to(2 * table.T @ table, (len(theta), *gradient.shape[1:] * 2))

    return loss


def logistic_loss(table: Any, signs: Any) -> Loss:
    def loss(theta: Any) -> tuple[Any, Any]:
        miss = expit(-signs * (theta @ table.T))
        outer = (table[:, :, None] * table[:, None, :]).reshape(len(table), -1)
        hessian = (miss * (1 - miss)) @ outer
        return (-signs * miss) @ table, hessian.reshape(len(theta), *table.shape[1:] * 2)

    return loss


def audit_on_a_line(first: Loss, second: Loss, recipe: Any, factor: float = 1.0) -> Any:
    """Exact audit of a one-dimensional objective mechanism, ends of the interval included."""
    laws = [ObjectiveLaw(loss, recipe, factor) for loss in (first, second)]
    radius = recipe.tolerance.radius
    return audit_exact(
        laws[0].log_density,
        laws[1].log_density,
        epsilon=recipe.target.epsilon,
        delta=recipe.target.delta,
        domain=((-radius, radius),),
        atoms=list(zip(laws[0].ends(), laws[1].ends(), strict=True)),
    )


def audit_in_a_plane(first: Loss, second: Loss, recipe: Any, factor: float = 1.0) -> Any:
    """Exact audit in two dimensions, where the ball is too large for the noise to reach its end."""
    assert recipe.law == "gamma"
    side = 32 * recipe.scale / recipe.curvature
    assert 1.5 * side < recipe.tolerance.radius
    laws = [ObjectiveLaw(loss, recipe, factor) for loss in (first, second)]
    return audit_exact(
        laws[0].log_density,
        laws[1].log_density,
        epsilon=recipe.target.epsilon,
        domain=((-side, side),) * 2,
    )


def audit_output(minimisers: list[float], recipe: Any, factor: float = 1.0) -> Any:
    """Exact audit of one-dimensional output perturbation, from the minimisers on two inputs."""
    first, second = minimisers
    claim = {"epsilon": recipe.target.epsilon, "delta": recipe.target.delta}
    if recipe.law == "gamma":
        scale, reach = recipe.scale * factor, recipe.reach

        def laplace(centre: float) -> Callable[[Any], Any]:
            return lambda x: -np.abs(x - centre) / scale - np.log(2 * scale)

        ends = [
            (np.exp(-(reach + c) / scale) / 2, np.exp(-(reach - c) / scale) / 2)
            for c in (first, second)
        ]
        atoms = list(zip(*ends, strict=True))
        domain = ((-reach, reach),)
        return audit_exact(laplace(first), laplace(second), domain=domain, atoms=atoms, **claim)
    seal = recipe.seal
    centres = [round(centre / 2.0**seal.grid_exponent) for centre in (first, second)]
    reach = int(12 * seal.noise_scale)
    steps = np.arange(min(centres) - reach, max(centres) + reach + 1)
    weights = [np.exp(-(((steps - c) / (seal.noise_scale * factor)) ** 2) / 2) for c in centres]
    atoms = [(float(p), float(q)) for p, q in zip(*(w / w.sum() for w in weights), strict=True)]
    return audit_exact(_nowhere, _nowhere, domain=((0.0, 1.0),), atoms=atoms, **claim)


def _nowhere(points: Any) -> Any:
    return np.full(len(points), -np.inf)


def unchecked(patch: pytest.MonkeyPatch) -> None:
    """Leaves out the reading of the data, which takes most of the time of a small fit."""
    patch.setattr(base, "validate_data", lambda learner, X, y, **how: (X, y))
    patch.setattr(linear.TwoClasses, "_signs", lambda learner, y: np.where(y == 1, 1.0, -1.0))
