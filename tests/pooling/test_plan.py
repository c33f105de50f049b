"""The plan: what is refused before anyone joins, and that a file gives back the same plan."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.pooling import Member, PoolPlan, read_plan
from sudare.releases import Contract
from tests.pooling import pools

MEMBERS = pools.parties(3)


def made(**changed: Any) -> PoolPlan:
    return pools.plan(MEMBERS, **changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": "sudare-pool/2"}, "format"),
        ({"study": "ab"}, "study"),
        ({"study": "AB" * 32}, "study"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"alone": -1.0}, "alone"),
        ({"alone": math.nan}, "alone"),
        ({"attempt": 0}, "attempt"),
        ({"attempt": 1.5}, "attempt"),
        ({"most_rows": 0}, "most_rows"),
        ({"most_rows": 10**30}, "most_rows"),
        ({"fresh_days": 0.0}, "fresh_days"),
        ({"fresh_days": 1e300}, "fresh_days"),
        ({"colluders": -1}, "colluders"),
        ({"colluders": 3}, "colluders"),
        ({"members": ()}, "at least 3"),
        ({"contract": Contract(features=10**9, row_norm=3.0, classes=("a", "b"))}, "features"),
        ({"contract": pools.NUMBERS, "kind": "logistic"}, "kind"),
    ],
    ids=str,
)
def test_what_cannot_be_agreed_on(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        made(**changed)


def test_two_would_learn_each_others_sums() -> None:
    with pytest.raises(InvalidInput, match="at least 3"):
        pools.plan(MEMBERS[:2])


def test_each_member_once_in_one_order() -> None:
    a, b, c = made().members
    with pytest.raises(InvalidInput, match="order of their keys"):
        made(members=(b, a, c))
    with pytest.raises(InvalidInput, match="once"):
        made(members=(a, a, b))
    with pytest.raises(InvalidInput, match="once"):
        made(members=(a, Member(name=a.name, key=b.key), c))


def test_no_more_members_than_a_pool_can_have() -> None:
    many = tuple(Member(name=f"m{i}", key=f"{i:043d}") for i in range(10_001))
    with pytest.raises(InvalidInput, match="at most 10000"):
        made(members=many)
    assert made(members=many[:-1]).honest == 10_000


@pytest.mark.parametrize(
    ("name", "key"), [("", "a" * 43), ("x\n", "a" * 43), ("x" * 201, "a" * 43), ("x", "a" * 42)]
)
def test_members_have_printable_names_and_fingerprints(name: str, key: str) -> None:
    with pytest.raises(InvalidInput, match="Expected"):
        Member(name=name, key=key)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"alone": 3.5, "colluders": 1, "kind": "logistic", "attempt": 2, "unit": "patient"},
        {"contract": pools.NUMBERS, "fresh_days": 0.5},
        {"contract": Contract(features=1, row_norm=3.0, classes=(0, 1))},
        {"members": tuple(Member(name=f'"{m.name}"\\', key=m.key) for m in made().members)},
    ],
    ids=["plain", "logistic", "numbers", "labels", "names"],
)
def test_a_file_gives_back_the_same_plan(changed: dict[str, Any], tmp_path: Path) -> None:
    plan = made(**changed)
    path = tmp_path / "pool.toml"
    path.write_text(plan.to_toml())
    again = read_plan(path)
    assert again == plan
    assert again.digest() == plan.digest()
    assert again.difference(plan) is None


def test_one_price_has_one_digest(tmp_path: Path) -> None:
    """Whole numbers where floats are meant: files and bundles give floats back."""
    contract = Contract(features=2, row_norm=3, constant=1, classes=("no", "yes"))
    plan = made(epsilon=1, alone=3, fresh_days=7, contract=contract)
    encoded = msgspec.json.encode(plan, order="sorted")
    again = msgspec.json.decode(encoded, type=PoolPlan)
    assert msgspec.json.encode(again, order="sorted") == encoded
    path = tmp_path / "pool.toml"
    path.write_text(plan.to_toml())
    assert read_plan(path).digest() == again.digest() == plan.digest()


def test_what_a_plan_leaves_out_means_the_same_for_ever() -> None:
    """Joins and answers name the digest: another default would make them those of another plan."""
    members = tuple(Member(name=f"Clinic {i}", key=f"{i:043d}") for i in range(3))
    plan = PoolPlan(
        study=pools.STUDY,
        contract=pools.NUMBERS,
        epsilon=2.0,
        delta=1e-6,
        colluders=1,
        members=members,
    )
    assert (plan.kind, plan.alone, plan.attempt, plan.unit) == ("moments", None, 1, "row")
    assert (plan.most_rows, plan.fresh_days) == (10_000_000, 7.0)
    assert plan.digest() == "80ae2917a9f7afdc8e592c2683782bb05b5e52ddb0fb68437453e4f697a42725"


@pytest.mark.parametrize(
    "changed",
    [
        {"study": "cd" * 32},
        {"epsilon": 1.0 + 2**-52},
        {"delta": 2e-6},
        {"colluders": 1},
        {"alone": 3.0},
        {"kind": "logistic"},
        {"attempt": 2},
        {"most_rows": 99_999},
        {"fresh_days": 8.0},
        {"unit": "patient"},
        {"contract": msgspec.structs.replace(pools.CLASSES, row_norm=3.5)},
        {"members": pools.plan(pools.parties(3)).members},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_every_change_is_another_plan_and_is_named(changed: dict[str, Any]) -> None:
    plan, other = made(), made(**changed)
    assert plan.digest() != other.digest()
    assert plan.difference(other) == next(iter(changed))


@pytest.mark.parametrize("text", ["", "epsilon = 1", "a = [", "x = nan"])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "pool.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"pool\.toml is not the plan of a pool"):
        read_plan(path)


def test_a_plan_with_impossible_numbers_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pool.toml"
    for wrong in ("nan", "inf", "-1.0", "0.0"):
        path.write_text(made().to_toml().replace("epsilon = 1.0", f"epsilon = {wrong}"))
        with pytest.raises(InvalidInput, match="epsilon"):
            read_plan(path)
    path.write_text(made().to_toml() + 'more = "x"\n')
    with pytest.raises(InvalidInput, match="more"):
        read_plan(path)


def test_members_are_found_by_their_keys() -> None:
    plan = made()
    assert [plan.member(each.key) for each in plan.members] == list(plan.members)
    assert plan.member("a" * 43) is None
