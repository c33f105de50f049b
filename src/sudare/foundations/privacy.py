"""What a privacy guarantee is, and how several add up.

An `Event` records what was run, in just enough words to account for it again later. `account` turns
events into a `Guarantee`, which answers in numbers (`epsilon`, `delta`) and in a sentence (`str`).

    PureEvent(ε)            ε-DP
    GaussianEvent(μ)        μ-GDP: no easier to tell apart than N(0, 1) from N(μ, 1)
    NearGaussianEvent(μ, …) μ-GDP but for a stated distance (Gaussian noise on a fine lattice)
    ConcentratedEvent(ρ)    ρ-zCDP
    ApproximateEvent(ε, δ)  (ε, δ)-DP, nothing more known
    LocalEvent(ε)           ε-LDP: holds against the collector itself

The set is closed and the meaning of an event never changes: a new meaning is a new event. The kind
in the serialised form carries a version, and an unknown kind is refused by name.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from enum import Enum
from typing import TYPE_CHECKING, assert_never

import msgspec

from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.foundations.composition import Parts


class Neighbours(Enum):
    """Which two inputs must be hard to tell apart."""

    REPLACE_ONE = "replace-one"
    """One unit's data replaced by anything else; the number of units is public."""
    ADD_REMOVE = "add-remove"
    """One unit present or absent."""
    LOCAL = "local"
    """Any two inputs of one user, seen by the collector itself."""


class _Central(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    unit: str = "row"
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_circumstances(self)


class _Local(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    neighbours: Neighbours = Neighbours.LOCAL
    unit: str = "user"
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_circumstances(self)


class PureEvent(_Central, frozen=True, tag_field="kind", tag="pure/1"):
    """A release that is ε-DP."""

    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(epsilon=self.epsilon)
        _store_as_floats(self, "epsilon")


class GaussianEvent(_Central, frozen=True, tag_field="kind", tag="gaussian/1"):
    """A release that is μ-GDP, so (ε, δ)-DP along the whole Gaussian curve."""

    mu: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(mu=self.mu)
        _store_as_floats(self, "mu")


class NearGaussianEvent(_Central, frozen=True, tag_field="kind", tag="near-gaussian/1"):
    """A release whose law is close to that of a μ-GDP one, whatever the data.

    There is a μ-GDP mechanism and a law within a factor e^{±log_ratio} of its law everywhere, such
    that the release's own law is within total variation `failure` of the latter; or the other way
    round. Hence

        δ(ε) = e^{log_ratio}·δ_μ(ε − 2·log_ratio) + (1 + e^ε)·failure,

    and releases compose by √Σμ², Σlog_ratio and Σfailure (docs/theory/guarantees.md).
    """

    mu: float
    log_ratio: float
    failure: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(mu=self.mu)
        checks.non_negative(log_ratio=self.log_ratio)
        checks.delta_like(failure=self.failure)
        _store_as_floats(self, "mu", "log_ratio", "failure")


class ConcentratedEvent(_Central, frozen=True, tag_field="kind", tag="concentrated/1"):
    """A release that is ρ-zCDP, as exact discrete Gaussian noise is on any lattice."""

    rho: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(rho=self.rho)
        _store_as_floats(self, "rho")


class ApproximateEvent(_Central, frozen=True, tag_field="kind", tag="approximate/1"):
    """A release of which only (ε, δ)-DP is known."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(epsilon=self.epsilon)
        checks.delta_like(delta=self.delta)
        _store_as_floats(self, "epsilon", "delta")


class LocalEvent(_Local, frozen=True, tag_field="kind", tag="local/1"):
    """Reports of one user that are together ε-LDP."""

    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(epsilon=self.epsilon)
        _store_as_floats(self, "epsilon")


Event = (
    PureEvent
    | GaussianEvent
    | NearGaussianEvent
    | ConcentratedEvent
    | ApproximateEvent
    | LocalEvent
)


@dataclass(frozen=True)
class Guarantee:
    """What a list of events promises together, for one unit and one neighbour relation."""

    events: tuple[Event, ...]
    at_delta: float = 0.0
    """The δ at which the sentence states ε."""

    def __post_init__(self) -> None:
        for event in self.events:
            if not isinstance(event, Event):
                raise checks.InvalidInput(f"Unknown event: {type(event).__name__}")
        for field in ("neighbours", "unit"):
            if len({getattr(event, field) for event in self.events}) > 1:
                raise checks.InvalidInput(
                    f"Expected all events to have the same {field}: "
                    "guarantees about different things do not add up"
                )

    def epsilon(self, delta: float | None = None) -> float:
        """The least ε known to hold at this δ (that of the sentence by default), rounded up.

        Infinite when no ε holds: δ below what the events have already given away.
        """
        delta = self.at_delta if delta is None else delta
        checks.delta_like(delta=delta)
        # Here and below: a device that only names its event does not wait for scipy.
        from sudare.foundations import composition

        return composition.epsilon(_parts(self.events), delta)

    def delta(self, epsilon: float) -> float:
        """The least δ known to hold at this ε, rounded up."""
        checks.non_negative(epsilon=epsilon)
        from sudare.foundations import composition

        return composition.delta(_parts(self.events), epsilon)

    @property
    def neighbours(self) -> Neighbours | None:
        return self.events[0].neighbours if self.events else None

    @property
    def unit(self) -> str | None:
        return self.events[0].unit if self.events else None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Every assumption of every event, each once, in order of first use."""
        return tuple(dict.fromkeys(text for event in self.events for text in event.assumptions))

    def __str__(self) -> str:
        if not self.events:
            return "Nothing has been released."
        epsilon = self.epsilon()
        if math.isinf(epsilon):
            return f"No guarantee holds at δ = {self.at_delta:g}: ask at a larger δ."
        shown = _rounded_up(epsilon, 4)
        times = _rounded_up(math.exp(epsilon), 3) if epsilon < 700 else f"e^{shown}"
        change = {
            Neighbours.REPLACE_ONE: f"had any one {self.unit} been any other",
            Neighbours.ADD_REMOVE: f"had any one {self.unit} been left out or added",
            Neighbours.LOCAL: f"had the {self.unit}'s true answers been any others",
        }[self.events[0].neighbours]
        except_for = ""
        if self.at_delta > 0:
            except_for = f", except with probability {_rounded_up(self.at_delta, 3)}"
        sentence = (
            f"Whatever anyone concludes from what was released, they would have concluded it at "
            f"most {times} times as often, and at least 1/{times} as often, {change}{except_for}. "
            f"(ε = {shown}, δ = {_rounded_up(self.at_delta, 3)}, "
            f"{self.events[0].neighbours.value}, per {self.unit})"
        )
        if self.assumptions:
            sentence += " This assumes: " + "; ".join(self.assumptions) + "."
        return sentence


def account(events: Iterable[Event], delta: float = 0.0) -> Guarantee:
    """The guarantee of all events together, stated at `delta`.

    Pure and Gaussian events compose tightly (privacy loss distributions, dp-accounting), plain
    (ε, δ) ones by addition. Units and neighbour relations are never mixed. The prices are taken to
    be fixed beforehand; a ledger, whose next price may depend on what was seen, has rules of its
    own (docs/theory/filters.md).
    """
    checks.delta_like(delta=delta)
    guarantee = Guarantee(tuple(events), delta)
    needed = _parts(guarantee.events).plain_delta
    if delta < needed:
        raise checks.InvalidInput(
            f"Expected delta={delta} >= {needed}, what the plain (ε, δ) events use up already"
        )
    return guarantee


def encode(events: Iterable[Event]) -> bytes:
    """Events as JSON; floats are written so that they read back to the last bit."""
    return msgspec.json.encode(tuple(events))


def decode(data: bytes | str) -> tuple[Event, ...]:
    """Events from JSON; anything unknown, missing or out of range is refused."""
    try:
        return msgspec.json.decode(data, type=tuple[Event, ...])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise checks.InvalidInput(f"Not a list of privacy events: {problem}") from None


def parse(texts: Iterable[str]) -> list[Event]:
    """Events from words such as ``pure:0.5``, ``approximate:1,1e-7`` or ``gaussian:0.3x20``."""
    events: list[Event] = []
    for text in texts:
        match = re.fullmatch(
            r"([a-z-]+):([^,x]+)(?:,([^,x]+))?(?:,([^,x]+))?(?:x([1-9]\d{0,5}))?", text.strip()
        )
        kind = _KINDS.get(match[1]) if match else None
        if match is None or kind is None:
            raise checks.InvalidInput(
                f"Expected an event such as pure:0.5 or gaussian:0.3x20, not {text[:40]!r}; "
                f"kinds are {', '.join(_KINDS)}"
            )
        try:
            numbers = [float(part) for part in match.group(2, 3, 4) if part is not None]
            event = kind(*numbers)
        except TypeError:
            raise checks.InvalidInput(f"Wrong number of values in {text[:40]!r}") from None
        except checks.InvalidInput:
            raise
        except ValueError:
            raise checks.InvalidInput(f"Expected numbers in {text[:40]!r}") from None
        events.extend([event] * int(match[5] or 1))
    return events


_KINDS: dict[str, Callable[..., Event]] = {
    "pure": PureEvent,
    "gaussian": GaussianEvent,
    "near-gaussian": NearGaussianEvent,
    "concentrated": ConcentratedEvent,
    "approximate": ApproximateEvent,
    "local": LocalEvent,
}


def _check_circumstances(event: _Central | _Local) -> None:
    if not isinstance(event.neighbours, Neighbours):
        raise checks.InvalidInput("Expected neighbours to be a member of Neighbours")
    if (event.neighbours is Neighbours.LOCAL) != isinstance(event, _Local):
        raise checks.InvalidInput("Expected neighbours=LOCAL for a LocalEvent, and only there")
    # Both are printed inside sentences that people sign: nothing may pass for the sentence itself.
    if not (isinstance(event.unit, str) and re.fullmatch(r"[^\W\d][\w -]{0,39}", event.unit)):
        raise checks.InvalidInput("Expected unit to be a word such as 'row' or 'user'")
    if not isinstance(event.assumptions, tuple) or not all(
        isinstance(text, str) and text.isprintable() and len(text) <= 400
        for text in event.assumptions
    ):
        raise checks.InvalidInput("Expected assumptions to be a tuple of sentences")


def _store_as_floats(event: _Central | _Local, *fields: str) -> None:
    """Numbers of any type as floats, never below what was given: JSON knows no others."""
    for field in fields:
        given = getattr(event, field)
        near = float(given)
        exact = near if near >= given else math.nextafter(near, math.inf)
        msgspec.structs.force_setattr(event, field, exact)


def _parts(events: tuple[Event, ...]) -> "Parts":
    """The events as bare numbers, for the arithmetic."""
    from sudare.foundations import composition

    pure: list[float] = []
    mus: list[float] = []
    rhos: list[float] = []
    near: list[tuple[float, float]] = []
    plain: list[tuple[float, float]] = []
    for event in events:
        match event:
            case PureEvent(epsilon=epsilon) | LocalEvent(epsilon=epsilon):
                pure.append(epsilon)
            case GaussianEvent(mu=mu):
                mus.append(mu)
            case NearGaussianEvent(mu=mu, log_ratio=log_ratio, failure=failure):
                mus.append(mu)
                near.append((log_ratio, failure))
            case ConcentratedEvent(rho=rho):
                rhos.append(rho)
            case ApproximateEvent(epsilon=epsilon, delta=delta):
                plain.append((epsilon, delta))
            case _:
                assert_never(event)
    return composition.parts(pure, mus, rhos, plain, near)


def _rounded_up(value: float, digits: int) -> str:
    """Few digits for people, never less than the value as it is written."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(Decimal(repr(value)))):g}"
