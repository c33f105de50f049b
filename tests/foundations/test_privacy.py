"""Events, what they become together, and a serialised form that reads nothing it does not know."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import MPContext

from sudare.foundations.checks import InvalidInput
from sudare.foundations.curves import concentrated_epsilon, gaussian_delta, gaussian_epsilon
from sudare.foundations.privacy import (
    ApproximateEvent,
    ConcentratedEvent,
    GaussianEvent,
    Guarantee,
    LocalEvent,
    Neighbours,
    PureEvent,
    account,
    decode,
    encode,
)
from tests.events import ALL
from tests.support.strategies import spread

mp = MPContext()
mp.dps = 50


# Events


@pytest.mark.parametrize("event", [PureEvent, GaussianEvent, ConcentratedEvent, LocalEvent])
@pytest.mark.parametrize(
    "value", [0, 0.0, -1.0, math.nan, math.inf, "1", None, True, 1j, [1.0], 10**400, np.array(1.0)]
)
def test_parameters_must_be_positive_numbers(event: Any, value: Any) -> None:
    name = event.__struct_fields__[0]
    with pytest.raises(InvalidInput, match=f"Expected {name}="):
        event(value)


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.0, math.nan, None, "0"])
def test_the_delta_of_an_event_must_be_a_probability_below_one(delta: Any) -> None:
    with pytest.raises(InvalidInput, match="Expected delta="):
        ApproximateEvent(1.0, delta)
    with pytest.raises(InvalidInput, match="Expected epsilon="):
        ApproximateEvent(0.0, 0.1)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("neighbours", "replace-one", "Expected neighbours to be a member"),
        ("neighbours", None, "Expected neighbours to be a member"),
        ("unit", "", "Expected unit to be a word"),
        ("unit", "  ", "Expected unit to be a word"),
        ("unit", 3, "Expected unit to be a word"),
        ("unit", None, "Expected unit to be a word"),
        ("assumptions", "bounded", "Expected assumptions to be a tuple"),
        ("assumptions", ["bounded"], "Expected assumptions to be a tuple"),
        ("assumptions", (1,), "Expected assumptions to be a tuple"),
    ],
)
@pytest.mark.parametrize("event", [PureEvent, GaussianEvent, ConcentratedEvent, LocalEvent])
def test_circumstances_are_checked(event: Any, field: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        event(1.0, **{field: value})


def test_local_events_are_local_and_no_others() -> None:
    for central in (PureEvent, GaussianEvent, ConcentratedEvent):
        with pytest.raises(InvalidInput, match="neighbours=LOCAL"):
            central(1.0, neighbours=Neighbours.LOCAL)
    with pytest.raises(InvalidInput, match="neighbours=LOCAL"):
        ApproximateEvent(1.0, 0.1, neighbours=Neighbours.LOCAL)
    for neighbours in (Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE):
        with pytest.raises(InvalidInput, match="neighbours=LOCAL"):
            LocalEvent(1.0, neighbours=neighbours)


@pytest.mark.parametrize("event", ALL, ids=lambda event: type(event).__name__)
def test_events_cannot_be_changed(event: Any) -> None:
    for field in (*event.__struct_fields__, "other"):
        with pytest.raises(AttributeError):
            setattr(event, field, 1.0)
    assert hash(event) == hash(msgspec.structs.replace(event))
    first = event.__struct_fields__[0]
    changed = msgspec.structs.replace(event, **{first: getattr(event, first) * 2})
    assert changed != event
    with pytest.raises(InvalidInput):
        msgspec.structs.replace(event, **{first: -1.0})


@pytest.mark.parametrize(
    "value", [1, np.float64(1.1), np.float32(1.1), np.int64(3), Fraction(1, 3), Fraction(1, 10)]
)
def test_numbers_of_other_types_become_floats_never_below(value: Any) -> None:
    events: list[Any] = [PureEvent(value), LocalEvent(value), ApproximateEvent(value, 0.0)]
    for event in events:
        assert type(event.epsilon) is float
        assert value <= Fraction(event.epsilon) <= Fraction(float(value)) * (1 + Fraction(1, 2**52))
        assert decode(encode([event])) == (event,)
    assert type(GaussianEvent(value).mu) is float
    assert type(ConcentratedEvent(value).rho) is float
    assert type(ApproximateEvent(1, 0).delta) is float
    assert account([PureEvent(value)] * 2, 1e-6).epsilon() <= 2 * float(value) * (1 + 1e-15)


# Accounting


def test_one_event_gives_its_own_numbers() -> None:
    assert account([PureEvent(1.0)]).epsilon() == 1.0
    assert account([LocalEvent(2.0)]).epsilon() == 2.0
    assert account([ApproximateEvent(1.5, 1e-6)], 1e-6).epsilon() == 1.5
    gaussian = account([GaussianEvent(0.3)], 1e-6)
    assert gaussian.epsilon() == gaussian_epsilon(0.3, 1e-6)
    assert gaussian.epsilon(1e-9) == gaussian_epsilon(0.3, 1e-9)
    assert gaussian.delta(1.0) == gaussian_delta(1.0, 0.3)
    concentrated = account([ConcentratedEvent(0.02)], 1e-6)
    assert concentrated.epsilon() == concentrated_epsilon(0.02, 1e-6)


def test_every_event_counts() -> None:
    """A list of one of each kind costs more than the same list without any one of them."""
    events: list[Any] = [
        PureEvent(0.5),
        GaussianEvent(0.3),
        ConcentratedEvent(0.05),
        ApproximateEvent(1.0, 0),
    ]
    together = account(events, 1e-12).epsilon()
    for left_out in events:
        rest = [event for event in events if event is not left_out]
        assert account(rest, 1e-12).epsilon() < together - 0.1
    assert account([LocalEvent(0.5), LocalEvent(0.25)]).epsilon() == 0.75


def test_a_generator_of_events_is_read_once() -> None:
    guarantee = account(PureEvent(0.5) for _ in range(2))
    assert guarantee.events == (PureEvent(0.5), PureEvent(0.5))
    assert guarantee.epsilon() == guarantee.epsilon() == 1.0


@pytest.mark.parametrize(
    "other",
    [
        PureEvent(1.0, unit="patient"),
        PureEvent(1.0, neighbours=Neighbours.ADD_REMOVE),
        GaussianEvent(1.0, unit="Row"),
        LocalEvent(1.0),
        LocalEvent(1.0, unit="row"),
    ],
)
def test_different_things_do_not_add_up(other: Any) -> None:
    account([other], 0.1)
    for events in ([PureEvent(1.0), other], [other, PureEvent(1.0)]):
        with pytest.raises(InvalidInput, match=r"same (neighbours|unit)"):
            account(events, 0.1)


@pytest.mark.parametrize(
    "stranger", [1.0, None, "pure/1", PureEvent, {"kind": "pure/1"}, (1.0, 1e-6), object()]
)
def test_unknown_events_are_refused_by_name(stranger: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^Unknown event: {type(stranger).__name__}$"):
        account([PureEvent(1.0), stranger])
    with pytest.raises((AssertionError, InvalidInput)):
        Guarantee((stranger,)).epsilon()


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan, None, "0"])
def test_deltas_are_checked(delta: Any) -> None:
    with pytest.raises(InvalidInput, match="Expected delta="):
        account([PureEvent(1.0)], delta)
    if delta is not None:
        with pytest.raises(InvalidInput, match="Expected delta="):
            account([PureEvent(1.0)]).epsilon(delta)
    with pytest.raises(InvalidInput, match="Expected epsilon=-1 >= 0"):
        account([PureEvent(1.0)]).delta(-1)


@given(st.lists(st.floats(1e-12, 1e-3), min_size=1, max_size=12))
@example([1e-6] * 10)
@example([1e-9] * 10)
@example([0.1] * 3)
def test_a_delta_is_enough_or_refused(deltas: list[float]) -> None:
    """What `account` lets through has a finite ε; one step less is refused."""
    events = [ApproximateEvent(0.5, delta) for delta in deltas]
    exact = sum(map(Fraction, deltas))
    enough = float(exact)
    if enough < exact:
        enough = math.nextafter(enough, 1)
    assert account(events, enough).epsilon() == 0.5 * len(deltas)
    too_small = math.nextafter(enough, 0)
    with pytest.raises(InvalidInput, match=re.escape(f"Expected delta={too_small} >= {enough}")):
        account(events, too_small)


def test_a_guarantee_cannot_be_changed_and_knows_what_it_is_about() -> None:
    guarantee = account(
        [
            PureEvent(1.0, unit="patient", assumptions=("a", "b")),
            PureEvent(1.0, unit="patient", assumptions=("b", "c", "a")),
        ]
    )
    with pytest.raises(AttributeError):
        guarantee.at_delta = 0.5  # type: ignore[misc]
    assert guarantee.unit == "patient"
    assert guarantee.neighbours is Neighbours.REPLACE_ONE
    assert guarantee.assumptions == ("a", "b", "c")


def test_no_events_at_all() -> None:
    nothing = account([])
    assert str(nothing) == "Nothing has been released."
    assert (nothing.epsilon(), nothing.epsilon(0.5), nothing.delta(0.0)) == (0.0, 0.0, 0.0)
    assert (nothing.neighbours, nothing.unit, nothing.assumptions) == (None, None, ())
    assert decode(encode([])) == ()


# The sentence


def shown(sentence: str, pattern: str) -> Decimal:
    found = re.search(pattern, sentence)
    assert found, sentence
    return Decimal(found[1])


def test_the_sentence() -> None:
    assumptions = "rows are clipped", "keys are kept"
    guarantee = account([GaussianEvent(0.3, unit="patient", assumptions=assumptions)], 1e-6)
    assert guarantee.epsilon() == pytest.approx(1.2917099)
    assert str(guarantee) == (
        "Whatever anyone concludes from what was released, they would have concluded it at most "
        "3.64 times as often, and at least 1/3.64 as often, had any one patient been any other, "
        "except with probability 1e-06. (ε = 1.292, δ = 1e-06, replace-one, per patient) "
        "This assumes: rows are clipped; keys are kept."
    )


@pytest.mark.parametrize(
    ("event", "change", "circumstances"),
    [
        (PureEvent(1.0), "had any one row been any other.", "replace-one, per row"),
        (
            PureEvent(1.0, neighbours=Neighbours.ADD_REMOVE, unit="user"),
            "had any one user been left out or added.",
            "add-remove, per user",
        ),
        (LocalEvent(1.0), "had the user's true answers been any others.", "local, per user"),
    ],
)
def test_the_sentence_names_unit_and_relation(event: Any, change: str, circumstances: str) -> None:
    sentence = str(account([event]))
    assert change in sentence
    assert f"at most 2.72 times as often, and at least 1/2.72 as often, {change}" in sentence
    assert f"(ε = 1, δ = 0, {circumstances})" in sentence
    assert "except" not in sentence
    assert "assumes" not in sentence


def test_the_sentence_when_nothing_holds() -> None:
    assert str(account([GaussianEvent(0.3)])) == ("No guarantee holds at δ = 0: ask at a larger δ.")


@settings(max_examples=300)
@given(spread(1e-300, 1e300), st.one_of(st.just(0.0), spread(1e-300, 0.5)))
@example(0.1 + 0.2, 0.0)
@example(0.99995, 1e-6)
@example(1.0005, 0.12345)
@example(9.9999999, 0.9999)
@example(1000.0, 0.0)
@example(709.9, 0.0)
def test_printed_numbers_are_never_rounded_down(epsilon: float, delta: float) -> None:
    sentence = str(account([ApproximateEvent(epsilon, delta)], delta))
    seen = shown(sentence, r"ε = ([0-9.e+-]+),")
    assert Decimal(epsilon) <= seen <= Decimal(epsilon) * Decimal("1.0011")
    for pattern in (r"δ = ([0-9.e+-]+),", r"except with probability ([0-9.e+-]+)\."):
        if delta > 0 or pattern.startswith("δ"):
            seen = shown(sentence, pattern)
            assert Decimal(delta) <= seen <= Decimal(delta) * Decimal("1.011")
    if epsilon < 700:
        times = shown(sentence, r"at most ([0-9.e+-]+) times")
        exact = mp.exp(epsilon)
        assert exact * (1 - mp.mpf(10) ** -15) <= mp.mpf(str(times)) <= exact * mp.mpf("1.0101")
        assert shown(sentence, r"at least 1/([0-9.e+-]+) as") == times
    else:
        times = shown(sentence, r"at most e\^([0-9.e+-]+) times")
        assert Decimal(epsilon) <= times


def test_rounding_to_the_nearest_would_be_noticed() -> None:
    assert Decimal(f"{1.00004:.4g}") < Decimal("1.00004")
    assert "ε = 1.001," in str(account([PureEvent(1.00004)]))


@pytest.mark.parametrize(
    "unit", ["", " ", "row\n", "row. (ε = 0.01)", "1st", "r" * 41, "a\tb", "row;", 3, None]
)
def test_a_unit_cannot_pass_for_part_of_the_sentence(unit: Any) -> None:
    with pytest.raises(InvalidInput, match="unit"):
        PureEvent(1.0, unit=unit)


@pytest.mark.parametrize("text", ["two\nlines", "x" * 401, "\x1b[31mred"])
def test_an_assumption_is_one_printable_sentence(text: str) -> None:
    with pytest.raises(InvalidInput, match="assumptions"):
        PureEvent(1.0, assumptions=(text,))


def test_a_guarantee_made_by_hand_is_checked_too() -> None:
    with pytest.raises(InvalidInput, match="same unit"):
        Guarantee((PureEvent(1.0), PureEvent(1.0, unit="patient")))
