"""Known mistakes in private learning, each with its correction, as audits anyone can repeat.

Six mistakes, published or in use, are caught; the six corrections are put through the same audit
and pass. The mistakes come from the ridge aggregation paper of Minami, Arai, Sato and Nakagawa
(2015; eq. 7, eq. 8), from a common treatment of the intercept in private logistic regression, and
from Minami's paper on Gibbs posteriors (2015; in `posteriors`). The guarantee that the regressions
miss is that of Chaudhuri, Monteleoni and Sarwate (2011) and Kifer, Smith and Thakurta (2012).

A case that passes is not thereby proved private: the proofs are in the theory pages. It shows that
the audit which catches the mistake does not also catch its correction.
"""

from functools import cache

import numpy as np
from numpy.random import Generator

from sudare.audit import _blackbox as blackbox
from sudare.audit import _posteriors as posteriors
from sudare.audit import _reference as reference
from sudare.audit._blackbox import Mechanism, Progress
from sudare.audit._cases import Case, Check
from sudare.audit._findings import ExactFinding, Finding
from sudare.audit._reference import Labels, Perturbation, Squares
from sudare.calibration import logistic_objective, ridge_objective

_PAPER = "Minami, Arai, Sato and Nakagawa (2015)"


def catalogue() -> dict[str, Case]:
    """All cases by name: each mistake, directly followed by its correction."""
    return {case.name: case for case in _cases()}


def _black_box(mechanism: Mechanism, first: object, second: object) -> Check:
    def check(
        runs: int, rng: Generator, progress: Progress | None, confidence: float
    ) -> Finding | ExactFinding:
        return blackbox.audit(
            mechanism,
            first,
            second,
            epsilon=1.0,
            runs=runs,
            confidence=confidence,
            rng=rng,
            progress=progress,
        )

    return check


def _exact_line(terms: Perturbation, radius: float, epsilon: float) -> Check:
    def check(
        runs: int, rng: Generator, progress: Progress | None, confidence: float
    ) -> Finding | ExactFinding:
        first, second = (
            reference.ridge_line(data, terms, radius) for data in reference.replaced_record()
        )
        finding = reference.line_audit(first, second, radius, epsilon)
        if progress is not None:
            progress(1, 1)
        return finding

    return check


def _ridge_on_a_line() -> list[Case]:
    """n = 20, one feature, X = Y = B = 1: nineteen rows near zero, and one that is 0 or 1."""
    first = Squares.of([[0.05], [0.0]], [0.0, 0.0], [19, 1])
    second = Squares.of([[0.05], [1.0]], [0.0, 1.0], [19, 1])
    published = Perturbation.published(
        1.0, n=20, regularization=0.01, row_norm=1.0, target_bound=1.0, radius=1.0
    )
    corrected = _corrected_ridge(dimension=1, regularization=0.01)
    return [
        Case(
            name="ridge-without-ball",
            title="Ridge regression in closed form, coefficients unbounded",
            what=(
                "The proof of objective perturbation needs a bound on the gradient of the squared "
                "loss, and there is one only while the coefficients are bounded. The closed-form "
                "estimate can land anywhere, and the farther out it lands, the easier it is to "
                "tell the two inputs apart."
            ),
            claim=f"{_PAPER}, eq. 8: ε = 1 (20 records, one feature)",
            expected="caught",
            method="black box",
            partner="ridge-in-ball",
            suggested_runs=200_000,
            check=_black_box(
                lambda data, runs, rng: reference.ridge_anywhere(data, published, runs, rng),
                first,
                second,
            ),
        ),
        Case(
            name="ridge-in-ball",
            title="Ridge regression minimised over the ball",
            what=(
                "The same two inputs. The minimiser is taken over the ball in which the gradient "
                "bound holds, with noise calibrated for replacing one record."
            ),
            claim="sudare: ε = 1 (20 records, one feature)",
            expected="passes",
            method="black box",
            partner="ridge-without-ball",
            suggested_runs=200_000,
            check=_black_box(
                lambda data, runs, rng: reference.ridge_in_ball(data, corrected, 1.0, runs, rng),
                first,
                second,
            ),
        ),
    ]


def _ridge_in_ten_dimensions() -> list[Case]:
    """n = 20, ten features, X = Y = B = 1: all rows zero, or one of them the first unit vector."""
    first = Squares.of(np.zeros((1, 10)), [0.0], [20])
    second = Squares.of(np.vstack([np.zeros(10), np.eye(10)[0]]), [0.0, 0.0], [19, 1])
    published = Perturbation.published(
        1.0, n=20, regularization=0.0, row_norm=1.0, target_bound=1.0, radius=1.0
    )
    corrected = _corrected_ridge(dimension=10, regularization=0.0)
    return [
        Case(
            name="ridge-clipped-afterwards",
            title="Ridge regression in closed form, then clipped to the ball",
            what=(
                "Clipping an estimate that is not private cannot make it so. In ten dimensions "
                "nearly all estimates end on the sphere, and their direction says how much the "
                "closed form was squeezed along the changed record."
            ),
            claim=f"{_PAPER}, eq. 8 with the bound on the coefficients enforced last: ε = 1",
            expected="caught",
            method="black box",
            partner="ridge-constrained",
            suggested_runs=1_000_000,
            check=_black_box(
                lambda data, runs, rng: reference.ridge_clipped(data, published, 1.0, runs, rng),
                first,
                second,
            ),
        ),
        Case(
            name="ridge-constrained",
            title="Ridge regression in ten dimensions, minimised over the ball",
            what=(
                "The same two inputs. The constraint is part of the minimisation, so that what "
                "ends on the sphere is what the proof speaks of."
            ),
            claim="sudare: ε = 1 (20 records, ten features)",
            expected="passes",
            method="black box",
            partner="ridge-clipped-afterwards",
            suggested_runs=1_000_000,
            check=_black_box(
                lambda data, runs, rng: reference.ridge_in_ball(data, corrected, 1.0, runs, rng),
                first,
                second,
            ),
        ),
    ]


def _ridge_constants() -> list[Case]:
    """n = 2001, one feature, X = Y = 1, B = 0.001, ε = 0.1: the law of the output is known."""
    radius, epsilon = 1e-3, 0.1
    published = Perturbation.published(
        epsilon, n=2001, regularization=0.0, row_norm=1.0, target_bound=1.0, radius=radius
    )
    corrected = Perturbation.corrected(
        ridge_objective(
            epsilon,
            0.0,
            n=2001,
            dimension=1,
            row_norm=1.0,
            target_bound=1.0,
            radius=radius,
            regularization=0.0,
        )
    )
    return [
        Case(
            name="ridge-paper-constants",
            title="Ridge regression over the ball, with the published noise constants",
            what=(
                "The published constants suit neighbours that gain or lose a record. When a record "
                "is replaced, as the paper's definition has it, gradient and curvature both change "
                "by more than was paid for. The law of the output is known here, so the audit "
                "integrates it instead of sampling; the shortfall is about a tenth of ε."
            ),
            claim=f"{_PAPER}, eq. 7: ε = 0.1 (2,001 records, one feature)",
            expected="caught",
            method="exact",
            partner="ridge-corrected-constants",
            suggested_runs=0,
            check=_exact_line(published, radius, epsilon),
        ),
        Case(
            name="ridge-corrected-constants",
            title="Ridge regression over the ball, with noise for replacing one record",
            what="The same two inputs, with the noise and the curvature that replacing needs.",
            claim="sudare: ε = 0.1 (2,001 records, one feature)",
            expected="passes",
            method="exact",
            partner="ridge-paper-constants",
            suggested_runs=0,
            check=_exact_line(corrected, radius, epsilon),
        ),
    ]


def _logistic_intercepts() -> list[Case]:
    """n = 20, one feature, rows within 1: one record at zero has its label changed.

    With the label -1 the records mirror each other, so that a free intercept is zero whatever the
    noise; with the label 1 it is positive whatever the noise.
    """

    def records(label: float) -> Labels:
        return Labels(
            rows=np.array([[0.5], [0.5], [-0.5], [-0.5], [0.0], [0.0]]),
            labels=np.array([1.0, -1.0, -1.0, 1.0, 1.0, label]),
            counts=np.array([7.0, 2.0, 7.0, 2.0, 1.0, 1.0]),
        )

    def with_constant(data: Labels) -> Labels:
        rows = np.column_stack([data.rows, np.ones(len(data.rows))])
        return Labels(rows, data.labels, data.counts)

    free = Perturbation.corrected(
        logistic_objective(1.0, 0.0, n=20, dimension=1, row_norm=1.0, regularization=0.01)
    )
    penalised = Perturbation.corrected(
        logistic_objective(
            1.0, 0.0, n=20, dimension=2, row_norm=float(np.sqrt(2.0)), regularization=0.01
        )
    )
    return [
        Case(
            name="logistic-free-intercept",
            title="Logistic regression with an intercept that is neither penalised nor perturbed",
            what=(
                "Leaving the intercept out of the penalty is common practice, and at least one "
                "widely used private learner also leaves it out of the noise. Given the other "
                "coefficients, the intercept is then computed from the data with no noise at all."
            ),
            claim="ε = 1, calibrated for the feature alone (20 records, one feature)",
            expected="caught",
            method="black box",
            partner="logistic-penalised-intercept",
            suggested_runs=100_000,
            check=_black_box(
                lambda data, runs, rng: reference.logistic_free_intercept(data, free, runs, rng),
                records(1.0),
                records(-1.0),
            ),
        ),
        Case(
            name="logistic-penalised-intercept",
            title="Logistic regression with the intercept as one more feature",
            what=(
                "The same two inputs. The intercept is the coefficient of a constant feature 1: "
                "penalised, perturbed, and counted in the norm of every row."
            ),
            claim="sudare: ε = 1 (20 records, one feature and an intercept)",
            expected="passes",
            method="black box",
            partner="logistic-free-intercept",
            suggested_runs=100_000,
            check=_black_box(
                lambda data, runs, rng: reference.logistic(data, penalised, runs, rng),
                with_constant(records(1.0)),
                with_constant(records(-1.0)),
            ),
        ),
    ]


def _corrected_ridge(*, dimension: int, regularization: float) -> Perturbation:
    return Perturbation.corrected(
        ridge_objective(
            1.0,
            0.0,
            n=20,
            dimension=dimension,
            row_norm=1.0,
            target_bound=1.0,
            radius=1.0,
            regularization=regularization,
        )
    )


@cache
def _cases() -> tuple[Case, ...]:
    return (
        *_ridge_on_a_line(),
        *_ridge_in_ten_dimensions(),
        *_ridge_constants(),
        *_logistic_intercepts(),
        *posteriors.cases(),
    )
