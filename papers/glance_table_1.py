"""Glance, table 1: how the error depends on ε, for ε → 0 and ε → ∞.

The paper states orders of bounds. Beside them stand exponents of the expected largest error itself,
computed from the law of a round for 10,000 users and 50 rounds: −d log(error)/d log ε near ε = 0,
and −d log(error)/dε where ε is large. A dense stream is one with a share of .9995.
"""

import math
from typing import NamedTuple

from papers.figure import (
    Conclusion,
    Figure,
    Finding,
    Results,
    Sample,
    Setting,
    TextTable,
    computed,
)
from papers.formulas.counting import dense_error_bound, paper_dense_error_rate
from papers.glance_3 import BETA, DENSE, GENERAL, ROUNDS, USERS
from sudare.counting import Method, Survey, predict_error

SMALL, RISING, LARGE = (0.01, 0.02), (3.0, 5.0), (16.0, 18.0)
"""Pairs of ε between which exponents are taken."""
NEAR_ZERO, MIDDLE, FAR, PROVED = "ε → 0", "ε from 3 to 5", "ε → ∞", "proved bound, ε → ∞"


class Case(NamedTuple):
    """A line of the table, as printed."""

    method: Method
    name: str
    share: float
    near_zero: str
    far: str


CASES = (
    Case("glance", "general", GENERAL, "O(1/ε)", "O(1)"),
    Case("glance", "dense or sparse", DENSE, "O(1/ε)", "O(e^(−ε/2))"),
    Case("harmony", "general", GENERAL, "O(1/ε)", "Θ(1)"),
    Case("harmony", "dense or sparse", DENSE, "O(1/ε)", "Θ(1)"),
)


def tasks(setting: Setting) -> list[Case]:
    return list(CASES)


def measure(case: Case) -> list[Sample]:
    def error(epsilon: float) -> float:
        survey = Survey(name="table", rounds=ROUNDS, epsilon=epsilon, method=case.method)
        return predict_error(survey, USERS, case.share)

    def fall(places: tuple[float, float]) -> float:
        return math.log(error(places[0]) / error(places[1]))

    name = f"{case.method}, {case.name}"
    found = [
        computed(name, NEAR_ZERO, 0.0, fall(SMALL) / math.log(SMALL[1] / SMALL[0])),
        computed(name, MIDDLE, 0.0, fall(RISING) / (RISING[1] - RISING[0])),
        computed(name, FAR, 0.0, fall(LARGE) / (LARGE[1] - LARGE[0])),
    ]
    if case == CASES[1]:
        bounds = [dense_error_bound(e, USERS, ROUNDS, BETA) for e in LARGE]
        rates = [paper_dense_error_rate(e, USERS, ROUNDS, BETA) for e in LARGE]
        width = LARGE[1] - LARGE[0]
        found.append(computed(name, PROVED, 0.0, math.log(bounds[0] / bounds[1]) / width))
        found.append(computed(name, "printed rate", 0.0, math.log(rates[0] / rates[1]) / width))
    return found


def _exponent(results: Results, case: Case, where: str) -> float:
    return results.at(f"{case.method}, {case.name}", where, 0.0).value


def table(results: Results) -> TextTable:
    return TextTable(
        (
            "method",
            "case",
            "ε → 0, printed",
            "exponent of 1/ε",
            "ε → ∞, printed",
            "fall per unit of ε, 3 to 5",
            "at 16 to 18",
        ),
        tuple(
            (
                case.method.capitalize(),
                case.name,
                case.near_zero,
                f"{_exponent(results, case, NEAR_ZERO):.2f}",
                case.far,
                f"{_exponent(results, case, MIDDLE):.3f}",
                f"{abs(_exponent(results, case, FAR)):.3f}",
            )
            for case in CASES
        ),
    )


def conclude(results: Results) -> Conclusion:
    near = [_exponent(results, case, NEAR_ZERO) for case in CASES]
    dense = CASES[1]
    middle, far = (_exponent(results, dense, where) for where in (MIDDLE, FAR))
    proved = _exponent(results, dense, PROVED)
    level = max(abs(_exponent(results, case, FAR)) for case in CASES if case != dense)
    return Conclusion(
        f"All four errors grow like 1/ε near zero (exponents {min(near):.3f} to {max(near):.3f}); "
        f"the dense Glance error falls like e^(−{middle:.2f}·ε) from ε = 3 to 5 and no longer at "
        f"ε = 16 to 18 ({abs(far):.3f} per unit), where the others are level too.",
        "The last entry, e^(−ε/2), is true only while e^ε is small beside N/(T·log(T/β)): for a "
        "fixed number of users the proved bound falls to 4K/3 and stays there, and so does the "
        "error, because some reporters disagree however honest they are.",
        (
            Finding(
                "1/ε for ε → 0, all four",
                "exponent 1",
                f"{min(near):.3f} to {max(near):.3f}",
                all(abs(x - 1) < 0.02 for x in near),
            ),
            Finding(
                "constant for ε → ∞, all but dense Glance",
                "no fall",
                f"{level:.4f} per unit of ε",
                level < 0.01,
            ),
            Finding(
                "e^(−ε/2) for ε → ∞, dense Glance",
                "0.5 per unit of ε",
                f"{abs(far):.3f} per unit of ε",
                abs(far - 0.5) < 0.1,
            ),
            Finding(
                "e^(−ε/2) at moderate ε, then a floor",
                "about 0.5, then 0",
                f"{middle:.2f}, then {abs(far):.3f} (proved bound {abs(proved):.3f})",
                abs(middle - 0.5) < 0.15 and abs(far) < 0.01 and abs(proved) < 0.01,
                corrected=True,
            ),
        ),
    )


FIGURE = Figure(
    name="glance-table-1",
    title="How errors depend on ε",
    paper="Ono, Fukuchi, Akimoto and Sakuma, table 1",
    claim="Errors are of order 1/ε for ε → 0; for ε → ∞ they are constant, except Glance's on "
    "dense or sparse streams, which falls like e^(−ε/2).",
    columns=("case", "where", "x", "exponent"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    table=table,
)
