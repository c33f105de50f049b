"""A pool as one organisation sees it, before and while it runs."""

from pathlib import Path

import pytest
from msgspec import UNSET

from sudare.foundations.checks import InvalidInput
from sudare.pooling import Kind, PoolInvalid, read_plan
from sudare.site import Pool, new_plan
from sudare.study import parse_study
from tests.site.clinics import CLASSES
from tests.site.desks import desks, finish, next_attempt


def test_status_needs_no_rows_and_changes_nothing(tmp_path: Path) -> None:
    made = desks(tmp_path)
    pool = made[0].pool
    assert pool.status().waiting == ("Clinic A", "Clinic B", "Clinic C")
    assert not Path(pool.place).exists()
    made[1].run()
    status = pool.status()
    assert (status.state, status.waiting) == ("joining", ("Clinic A", "Clinic C"))
    assert [party.rows for party in status.parties] == [None, 41, None]
    finish(made)
    assert pool.status().sentence == "Done: one release of 3 organisations, 123 rows."


def test_the_plan_of_everybody_in_the_keyring(tmp_path: Path) -> None:
    made = desks(tmp_path, 5)
    plan = made[0].pool.plan
    assert (plan.colluders, plan.honest, plan.unit) == (2, 3, "patient")
    assert read_plan(made[0].folder / "pool.toml") == plan
    fewer = next_attempt(made, without=("Clinic B",), attempt=2)[0].pool.plan
    assert {m.name for m in fewer.members} == {f"Clinic {c}" for c in "ACDE"}
    assert fewer.digest() != plan.digest()
    with pytest.raises(InvalidInput, match="Clinic X: not in the keyring"):
        next_attempt(made, without=("Clinic X",))
    with pytest.raises(InvalidInput, match="at least 3 organisations"):
        next_attempt(made, without=("Clinic A", "Clinic B", "Clinic C"))


def test_plans_of_logistic_pools_say_which_walk_they_take(tmp_path: Path) -> None:
    desk = desks(tmp_path)[0]
    kinds: tuple[Kind, ...] = ("logistic", "moments", "gradients")
    for kind, walk in zip(kinds, ("bounded", UNSET, UNSET), strict=True):
        plan = new_plan(desk.pool.study, desk.pool.keyring, kind=kind)
        assert plan.walk == walk
        (tmp_path / "plan.toml").write_text(plan.to_toml())
        assert read_plan(tmp_path / "plan.toml") == plan
        assert ("walk" in plan.to_toml()) is (walk != UNSET)


def test_another_study_or_a_stranger_in_the_plan_is_refused(tmp_path: Path) -> None:
    pool = desks(tmp_path)[0].pool
    other = parse_study(CLASSES.format(model="moments", epsilon=1.0).replace("90", "95"))
    with pytest.raises(PoolInvalid, match="another study"):
        Pool(other, pool.plan, pool.keyring, pool.place)
    ring = type(pool.keyring)({n: k for n, k in pool.keyring if n != "Clinic B"})
    with pytest.raises(PoolInvalid, match="not in your keyring: Clinic B"):
        Pool(pool.study, pool.plan, ring, pool.place)
