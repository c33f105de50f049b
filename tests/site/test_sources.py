from pathlib import Path

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from sudare import site
from sudare.blending import HedgedBlend
from sudare.exchange import new_key
from sudare.foundations.randomness import seeded
from sudare.ledger import Ledger
from sudare.releases import Release
from sudare.site._model import HIDDEN, Seen, Slope
from sudare.site._plan import make_learner
from sudare.site._sources import RECEIVED, SHRUNK, seen_features, slopes_by_source
from sudare.study import Study, parse_study, raw_content, read_table
from tests.site.clinics import Clinic, keyring, numbers, write_stays

TEXT = """
name = "pains"
[columns.age]
low = 20
high = 90
[columns.sex]
categories = ["f", "m"]
[columns.pain]
categories = ["none", "dull", "sharp"]
[target]
column = "ill"
classes = ["no", "yes"]
[privacy]
epsilon = 8.0
delta = 1e-6
"""


def frame(n: int, seed: int, pains: tuple[str, ...]) -> pd.DataFrame:
    rng = seeded(seed)
    age, male = rng.uniform(20, 90, n), rng.random(n) < 0.5
    pain = np.array(pains)[rng.integers(len(pains), size=n)]
    score = (age - 55) / 15 + male + (pain == "dull")
    ill = rng.random(n) < 1 / (1 + np.exp(-score))
    sex, found = np.where(male, "m", "f"), np.where(ill, "yes", "no")
    return pd.DataFrame({"age": age, "sex": sex, "pain": pain, "ill": found})


def release(study: Study, data: pd.DataFrame, name: str) -> Release:
    """As its desk would make it, with simulated noise."""
    block, learner = read_table(data, study), make_learner(study)
    learner.set_params(rng=seeded(11 + len(name)))
    learner.fit(block.rows, block.targets)
    found: Release = learner.release(name)
    return msgspec.structs.replace(found, contract=study.contract)


@pytest.fixture(scope="module")
def sources() -> tuple[Study, HedgedBlend, pd.DataFrame]:
    """Two large and one small release of sums, one of coefficients; own rows lack two pains."""
    study = parse_study(TEXT)
    both: tuple[str, ...] = ("none", "dull")
    releases = [
        release(study, frame(4000, 1, both), "North"),
        release(study, frame(4000, 2, both), "South"),
        release(study, frame(60, 3, both), "Small"),
        release(parse_study(TEXT + 'model = "objective"'), frame(4000, 4, both), "Learnt"),
    ]
    own = frame(90, 5, ("none",))
    block = read_table(own, study)
    assert block.targets is not None
    made = HedgedBlend(releases, contract=study.contract)
    made.fit(block.rows, np.where(block.targets > 0, "yes", "no"))
    return study, made, own


def ends(each: Slope | Seen) -> tuple[float, float]:
    assert each.low is not None
    assert each.high is not None
    return each.low, each.high


def width(each: Slope | Seen) -> float:
    low, high = ends(each)
    return high - low


def test_each_source_says_what_it_honestly_can(sources) -> None:
    study, made, own = sources
    block = read_table(own, study)
    assert block.targets is not None
    slopes = slopes_by_source(study, made, block.rows, block.targets)
    told = {(each.feature, each.source): each for each in slopes}
    assert {source for _, source in told} == {
        "blend", "own rows", "all releases together", "North", "South", "Small", "Learnt",
    }  # fmt: skip
    # Least squares of 0 and 1 by statistics' textbook, in the table's own units.
    north = frame(4000, 1, ("none", "dull"))
    plain = np.column_stack(
        [north["age"], north["sex"] == "m", north["pain"] == "dull", np.ones(4000)]
    )
    line = np.linalg.lstsq(plain.astype(float), north["ill"] == "yes", rcond=None)[0]
    for feature, slope in zip(("age", "sex=m", "pain=dull"), line, strict=False):
        each = told[feature, "North"]
        low, high = ends(each)
        assert low < slope < high
        assert high - low < 0.5 * max(abs(slope), 0.2)
        assert width(told[feature, "all releases together"]) < high - low
    assert {told["age", name].reason for name in ("North", "South", "own rows")} == {""}
    assert (told["age", "Small"].value, told["age", "Small"].reason) == (None, HIDDEN)
    assert (told["age", "blend"].low, told["age", "blend"].reason) == (None, SHRUNK)
    assert (told["age", "Learnt"].low, told["age", "Learnt"].reason) == (None, RECEIVED)
    assert told["age", "Learnt"].value == pytest.approx(line[0], rel=0.4)
    assert told["pain=dull", "own rows"].value is None
    assert told["pain=sharp", "North"].value is None  # nobody has it


def test_who_has_a_category_is_counted(sources) -> None:
    study, made, own = sources
    age, sex, dull, sharp = seen_features(study, made, read_table(own, study).rows)
    assert (age.varies, age.own, age.others) == (True, None, None)
    assert sex.own == (own["sex"] == "m").sum()
    assert (dull.own, sharp.own, dull.varies) == (0, 0, False)
    others = [frame(n, seed, ("none", "dull")) for n, seed in ((4000, 1), (4000, 2), (60, 3))]
    for each, column, level in (
        (sex, "sex", "m"),
        (dull, "pain", "dull"),
        (sharp, "pain", "sharp"),
    ):
        count = sum((one[column] == level).sum() for one in others)
        low, high = ends(each)
        assert low <= count <= high  # a miss has probability 6e-5 each
        assert each.of == 8060
        assert high - low < 400
    assert sharp.low == 0


def test_coefficients_do_not_tell_who_has_a_category(sources) -> None:
    study, made, own = sources
    (learnt,) = [each for each in made.releases if each.party == "Learnt"]
    block = read_table(own, study)
    assert block.targets is not None
    alone = HedgedBlend([learnt], contract=study.contract)
    alone.fit(block.rows, np.where(block.targets > 0, "yes", "no"))
    age, _, dull, _ = seen_features(study, alone, block.rows)
    assert (dull.varies, dull.others, dull.of, age.of) == (False, None, 4000, 4000)


def test_numbers_have_slopes_in_the_targets_units(tmp_path: Path) -> None:
    study, out = numbers(), tmp_path / "out"
    data, key = write_stays(tmp_path / "s.csv", 3000, 1), new_key()
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.open("stays", ledger.fingerprint(raw_content(data)), 2.0, 1e-6)
        site.publish(data, study, ledger, key, party="P", place=str(out))
    checked = site.collect([str(out)], keyring(Clinic("P", data, data, key)), study)
    own = write_stays(tmp_path / "own.csv", 60, 50)
    model = site.blend(own, study, checked, party="Own")
    told = {each.source: each for each in model.story.slopes}
    assert told.keys() == {"blend", "own rows", "P"}
    for source in ("own rows", "P"):  # days rise by a fifth for each year, but for clipping
        low, high = ends(told[source])
        assert low < 0.2 < high
        assert high - low < 0.12


def test_shortened_rows_cannot_be_counted(sources) -> None:
    study, made, own = sources
    narrow = parse_study(TEXT.replace("high = 90", "high = 90\nscale = 10"))
    assert (study.may_shorten, narrow.may_shorten) == (False, True)
    smaller = parse_study(TEXT + "row_norm = 0.8")
    assert smaller.may_shorten  # three columns of four features: up to √¾ long
    seen = seen_features(narrow, made, read_table(own, narrow).rows)
    assert [each.others for each in seen] == [None] * 4
