"""The plan of a pool: what all organisations agree on before anyone joins.

It is public, and small enough to be compared over the phone: its digest stands in everything that
is signed later, so that whoever holds another plan is refused. It says who takes part (by signing
key), for which study, at which price, and how many of the others may collude. A new attempt is a
new plan, and is charged again.
"""

import hashlib
import math
import tomllib
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from sudare.foundations import checks
from sudare.releases import PLAUSIBLE_ROWS, Contract
from sudare.storage.files import read_text, toml_value

FORMAT = "sudare-pool/1"
FEWEST = 3
"""Of two organisations each would learn the other's sum: that is a release, with more steps."""
MOST = 10_000
MOST_FEATURES = 2_000
"""So many make an answer of some twenty megabytes."""
MOST_DAYS = 3660
Kind = Literal["moments", "logistic", "poisson", "gradients"]
SPLITS: dict[Kind, tuple[float, ...]] = {
    "moments": (1.0,),
    "logistic": (0.15, 0.25, 0.6),
    "poisson": (0.15, 0.25, 0.6),
    "gradients": (1 / 30,) * 30,
}
"""Shares of the budget (of μ²) that each session takes. Logistic and Poisson: moments, then Newton
steps."""
MOST_COUNT = 1_000_000
"""Beyond, counts are numbers like others: noise is made for the largest."""
_LONGEST_NAME = 200


class Member(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An organisation of the pool."""

    name: str
    key: str
    """Fingerprint of its signing key."""

    def __post_init__(self) -> None:
        if not (self.name.strip() and self.name.isprintable() and len(self.name) <= _LONGEST_NAME):
            raise checks.InvalidInput("Expected a printable name for each organisation of the pool")
        if not (len(self.key) == 43 and self.key.isascii() and self.key.isprintable()):
            raise checks.InvalidInput(
                f"Expected the key of {self.name!r} to be a fingerprint, as 'sudare keys' prints it"
            )


class PoolPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who sums what, at which price, against how many colluders; all of it public."""

    study: str
    """Digest of the study."""
    contract: Contract
    """The study's bounds, so that a result can be read without the study."""
    epsilon: float
    """Holds if all but `colluders` of the organisations are honest."""
    delta: float
    colluders: int
    """How many organisations may pool what they know against the others."""
    members: tuple[Member, ...]
    """In the order of their keys."""
    alone: float | None = None
    """ε that holds even if nobody else is honest, or the cryptography is broken one day."""
    kind: Kind = "moments"
    attempt: int = 1
    unit: str = "row"
    most_rows: int = 10_000_000
    """More rows than any one of them has."""
    most_count: int | msgspec.UnsetType = msgspec.UNSET
    """Of a count target: what counts are clipped to. Unset it is not written, so that digests stay
    what they are."""
    walk: Literal["bounded"] | msgspec.UnsetType = msgspec.UNSET
    """How a logistic pool comes from sums to the coefficients of its next session. Unset: as plans
    did before there was a choice, so that their results can be checked for ever."""
    fresh_days: float = 7.0
    """Joins older than this are not answered: whoever made one may be gone."""
    format: str = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise checks.InvalidInput(f"Expected a plan of the format {FORMAT}")
        if not (len(self.study) == 64 and set(self.study) <= set("0123456789abcdef")):
            raise checks.InvalidInput("Expected study to be the digest of a study")
        checks.positive(epsilon=self.epsilon, fresh_days=self.fresh_days)
        checks.between(0, MOST_DAYS, fresh_days=self.fresh_days)
        checks.proportion(delta=self.delta)
        checks.count(attempt=self.attempt, most_rows=self.most_rows)
        checks.between(1, PLAUSIBLE_ROWS, most_rows=self.most_rows)
        if self.alone is not None:
            checks.positive(alone=self.alone)
        if self.contract.features > MOST_FEATURES:
            raise checks.InvalidInput(f"Expected at most {MOST_FEATURES} features in a pool")
        _check_members(self.members)
        checks.count(minimum=0, colluders=self.colluders)
        if self.colluders >= len(self.members):
            raise checks.InvalidInput(
                f"Expected fewer colluders than organisations ({len(self.members)}): somebody must "
                "be honest"
            )
        if self.kind == "logistic" and self.contract.task != "classification":
            counts = "" if self.most_count is msgspec.UNSET else "'poisson', "
            raise checks.InvalidInput(
                f"Expected kind = 'moments', {counts}or 'gradients': the target is a number"
            )
        if self.walk is not msgspec.UNSET and self.kind != "logistic":
            raise checks.InvalidInput("Expected no walk in a plan of another kind than 'logistic'")
        _check_counts(self)
        _store_as_read(self)

    @property
    def honest(self) -> int:
        """How many must be honest for `epsilon` to hold."""
        return len(self.members) - self.colluders

    @property
    def split(self) -> tuple[float, ...]:
        return SPLITS[self.kind]

    def digest(self) -> str:
        """Identifies the plan in everything that is signed under it."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()

    def member(self, key: str) -> Member | None:
        """The organisation behind a key, if it takes part."""
        return next((each for each in self.members if each.key == key), None)

    def to_toml(self) -> str:
        """The plan as a file."""
        lines = [
            "# The plan of a pool. Everybody needs the same one: compare by phone the digest that",
            "# 'sudare pool --preview' prints. A change of any line is another plan.",
        ]
        for name in self.__struct_fields__:
            value = getattr(self, name)
            written = value is not None and value is not msgspec.UNSET
            if name not in ("contract", "members") and written:
                lines.append(f"{name} = {toml_value(value)}")
        lines.append("\n[contract]")
        for name in self.contract.__struct_fields__:
            value = getattr(self.contract, name)
            if value is not None:
                lines.append(f"{name} = {_toml(value)}")
        for member in self.members:
            lines += ["\n[[members]]", f"name = {toml_value(member.name)}"]
            lines.append(f"key = {toml_value(member.key)}")
        return "\n".join(lines) + "\n"

    def difference(self, other: Self) -> str | None:
        """The first field in which another plan differs, for people; None if they are the same."""
        for name in self.__struct_fields__:
            if getattr(self, name) != getattr(other, name):
                return name
        return None


def read_plan(path: str | Path) -> PoolPlan:
    """The plan in a TOML file."""
    try:
        table = tomllib.loads(read_text(path))
        return msgspec.convert(table, PoolPlan)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError, RecursionError) as problem:
        raise checks.InvalidInput(f"{path} is not the plan of a pool: {problem}") from None


def _store_as_read(plan: PoolPlan) -> None:
    """Numbers as a file gives them back: 1 and 1.0 are one price, and must have one digest."""
    for name in ("epsilon", "delta", "alone", "fresh_days"):
        if (value := getattr(plan, name)) is not None:
            msgspec.structs.force_setattr(plan, name, float(value))
    for name in ("colluders", "attempt", "most_rows", "most_count"):
        if (value := getattr(plan, name)) is not msgspec.UNSET:
            msgspec.structs.force_setattr(plan, name, int(value))
    contract = msgspec.convert(msgspec.to_builtins(plan.contract), Contract)
    msgspec.structs.force_setattr(plan, "contract", contract)


def _check_counts(plan: PoolPlan) -> None:
    most = plan.most_count
    if most is msgspec.UNSET:
        if plan.kind == "poisson":
            raise checks.InvalidInput(
                "Expected another kind than 'poisson': the target is no count. A study of counts "
                "says so by 'most = 12' instead of low and high under [target]"
            )
        return
    checks.count(most_count=most)
    checks.between(1, MOST_COUNT, most_count=most)
    if plan.contract.task != "regression":
        raise checks.InvalidInput("Expected no most_count: the target is one of two classes")


def _check_members(members: tuple[Member, ...]) -> None:
    if len(members) < FEWEST:
        raise checks.InvalidInput(
            f"Expected at least {FEWEST} organisations: with two, each would learn the sum of the "
            "other; a release does that with fewer steps"
        )
    if len(members) > MOST:
        raise checks.InvalidInput(f"Expected at most {MOST} organisations in a pool")
    keys = [member.key for member in members]
    if len(set(keys)) < len(keys) or len({member.name for member in members}) < len(members):
        raise checks.InvalidInput("Expected each organisation of the pool once, by name and by key")
    if keys != sorted(keys):
        raise checks.InvalidInput("Expected the organisations in the order of their keys")


def _toml(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(each) for each in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        raise checks.InvalidInput("Expected finite numbers in a plan")
    return toml_value(value)
