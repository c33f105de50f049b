"""Consortia from public tables that were collected at many sites: schools, districts, communities.

The folder named by the environment variable SUDARE_DATA may hold `sites/NAME.csv` with a heading,
as the R package mlmRev has them; a table that is not there is left out.

    Contraception   use of contraception by women in districts of Bangladesh (Huq and Cleland 1990)
    guImmun         full immunisation of children in communities of Guatemala (Pebley et al. 1996)
    guPrenat        modern prenatal care in the same communities (Pebley et al. 1996)
    Hsb82           mathematics scores of pupils in schools (Raudenbush and Bryk 2002)
    Exam            examination scores of pupils in schools of inner London (Goldstein et al. 1993)
    Chem97          A-level scores in chemistry, by education authority (Fielding et al. 2003)

Each table is read under a study, as organisations would read it: bounds, typical values and
categories are round numbers and lists written down here, never taken from the data at hand. Numbers
count in typical deviations, at most three either way.

Sites with fewer than `FEWEST` rows are put together, in the order of their numbers, until they have
that many; what is left over at the end joins the last such group, or else the last site.
"""

import csv
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.consortia import Consortium, Table, classification, regression
from benchmarks.consortia.real import TRAIN, Study, data_folder
from sudare import study
from sudare.foundations.randomness import seeded
from sudare.study import Categories, Column, Number, Target, Terms, read_table

FEWEST = 20
"""Rows of a site: fourteen to learn from and six to be judged on."""


class Sites(NamedTuple):
    """A table of many sites: which column names the site, and how a row is read."""

    site: str
    target: Target
    columns: dict[str, Column]


def _number(typical: float, deviation: float) -> Number:
    return Number(
        low=typical - 3 * deviation, high=typical + 3 * deviation, centre=typical, scale=deviation
    )


def _one_of(*categories: str, missing: str | None = None) -> Categories:
    return Categories(categories=categories, missing=missing)


_NO_OR_YES = _one_of("N", "Y")
_SHARE = Number(low=0.0, high=1.0)

TABLES = {
    "Contraception": Sites(
        "district",
        Target(column="use", classes=("N", "Y")),
        {
            "livch": _one_of("0", "1", "2", "3+"),
            "age": _number(0, 9),  # years from the mean of women who may have children
            "urban": _NO_OR_YES,
        },
    ),
    "guImmun": Sites(
        "comm",
        Target(column="immun", classes=("N", "Y")),
        {
            "kid2p": _NO_OR_YES,
            "mom25p": _NO_OR_YES,
            "ord": _one_of("01", "23", "46", "7p"),
            "ethn": _one_of("L", "N", "S"),
            "momEd": _one_of("N", "P", "S"),
            "husEd": _one_of("N", "P", "S", "U"),
            "momWork": _NO_OR_YES,
            "rural": _NO_OR_YES,
            "pcInd81": _SHARE,
        },
    ),
    "guPrenat": Sites(
        "cluster",
        Target(column="prenat", classes=("Traditional", "Modern")),
        {
            "childAge": _one_of("0-2", "3+"),
            "motherAge": _one_of("24-", "25+"),
            "birthOrd": _one_of("1", "2-3", "4-6", "7+"),
            "indig": _one_of("Ladino", "NoSpa", "Spanish"),
            # Empty cells are the category "none".
            "momEd": _one_of("None", "Primary", "Secondary+", missing="None"),
            "husEd": _one_of("None", "Primary", "Secondary+", "Unknown", missing="None"),
            "husEmpl": _one_of(
                "Agri (self)", "Agri (empl)", "Unskilled", "Skilled", "Professional"
            ),
            "toilet": _one_of("None", "Modern", missing="None"),
            "TV": _one_of("never", "not daily", "daily", missing="never"),
            "pcInd81": _SHARE,
            "ssDist": Number(low=0.0, high=100.0, centre=20.0, scale=25.0),
        },
    ),
    "Hsb82": Sites(
        "school",
        Target(column="mAch", low=0.0, high=25.0),
        {
            "minrty": _one_of("No", "Yes"),
            "sx": _one_of("Female", "Male"),
            "ses": _number(0, 0.8),
            "meanses": _number(0, 0.4),
            "sector": _one_of("Public", "Catholic"),
        },
    ),
    "Exam": Sites(
        "school",
        Target(column="normexam", low=-3.0, high=3.0),
        {
            "schgend": _one_of("mixed", "boys", "girls"),
            "schavg": _number(0, 0.3),
            "vr": _one_of("mid 50%", "bottom 25%", "top 25%"),
            "intake": _one_of("mid 50%", "bottom 25%", "top 25%"),
            "standLRT": _number(0, 1),
            "sex": _one_of("F", "M"),
        },
    ),
    "Chem97": Sites(
        "lea",
        Target(column="score", low=0.0, high=10.0),
        {
            "gender": _one_of("M", "F"),
            "age": Number(low=-6.0, high=6.0),  # months from eighteen and a half years
            "gcsescore": Number(low=3.0, high=8.0, centre=6.0, scale=1.0),
        },
    ),
}


def site_studies() -> list[Study]:
    """All tables that are here; each site in turn learns, and is judged on its own rows."""
    return [Study(name, partial(_deal, name)) for name in TABLES if _path(name) is not None]


def missing_sites() -> list[str]:
    """What is left out because its file is not here."""
    return [name for name in TABLES if _path(name) is None]


def read_sites(path: Path, sites: Sites) -> list[Table]:
    """One table of encoded rows and targets for each site, small ones put together."""
    agreed = study.Study(
        name="sites",
        columns=sites.columns,
        target=sites.target,
        privacy=Terms(epsilon=1.0, delta=1e-5),
    )
    block = read_table(path, agreed)
    assert block.targets is not None
    classes = sites.target.classes
    targets = block.targets if classes is None else (block.targets > 0).astype(np.int64)
    rows = agreed.contract.rows(block.rows)[:, : agreed.contract.features]
    return [(rows[part], targets[part]) for part in _groups(_site_numbers(path, sites.site))]


def _groups(numbers: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Rows of each site of `FEWEST` or more, then those of small sites put together."""
    large: list[NDArray[np.intp]] = []
    together: list[NDArray[np.intp]] = []
    waiting: list[NDArray[np.intp]] = []
    for number in np.unique(numbers):
        rows = np.flatnonzero(numbers == number)
        if len(rows) >= FEWEST:
            large.append(rows)
            continue
        waiting.append(rows)
        if sum(map(len, waiting)) >= FEWEST:
            together.append(np.concatenate(waiting))
            waiting = []
    found = [*large, *together]
    if waiting:
        found[-1:] = [np.concatenate([*found[-1:], *waiting])]
    return found


def _site_numbers(path: Path, column: str) -> NDArray[np.int64]:
    with path.open(newline="") as file:
        return np.array([int(record[column]) for record in csv.DictReader(file)])


def _deal(name: str, seed: int) -> Consortium:
    """One site learns from seven tenths of its own rows and all others', judged on the rest."""
    path = _path(name)
    assert path is not None
    tables = _tables(name, path)
    order = seeded(seed // len(tables)).permutation(len(tables))
    own = int(order[seed % len(tables)])
    X, y = tables[own]
    shuffled = seeded(seed).permutation(len(y))
    cut = int(TRAIN * len(y))
    train, test = shuffled[:cut], shuffled[cut:]
    d = X.shape[1]
    contract = classification(d) if TABLES[name].target.classes else regression(d, 1.0)
    others = [table for k, table in enumerate(tables) if k != own]
    return Consortium(name, contract, X[train], y[train], others, X[test], y[test])


def site_tables(name: str) -> list[Table]:
    """Rows and targets of every site of a table that is here."""
    path = _path(name)
    assert path is not None
    return _tables(name, path)


@lru_cache(maxsize=8)
def _tables(name: str, path: Path) -> list[Table]:
    return read_sites(path, TABLES[name])


def _path(name: str) -> Path | None:
    folder = data_folder()
    path = folder / "sites" / f"{name}.csv" if folder else None
    return path if path and path.exists() else None
