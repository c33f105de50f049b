"""What an account costs and has left, and what a refusal says."""

from collections.abc import Sequence

import pytest

from sudare.foundations.privacy import (
    ApproximateEvent,
    ConcentratedEvent,
    Event,
    GaussianEvent,
    PureEvent,
    account,
)
from sudare.ledger import BudgetExceeded, Ledger
from sudare.ledger import _filters as filters
from sudare.ledger._filters import enforced
from tests.ledger.filled import opened


def test_a_refusal_says_what_is_left_and_what_was_asked(place: str) -> None:
    with opened(place, 1.0) as ledger:
        ledger.spend("people", PureEvent(0.75))
        with pytest.raises(BudgetExceeded, match=r"0\.25 of 1 left.*ε = 0\.5 .*1\.25, 0\.25 too"):
            ledger.spend("people", PureEvent(0.5))
        assert ledger.spend("people", PureEvent(0.25)).number == 2


def test_mixed_events_are_charged_what_they_cost_together(place: str) -> None:
    events: list[Event] = [
        GaussianEvent(0.2),
        ConcentratedEvent(0.002),
        ApproximateEvent(0.1, 1e-7),
        GaussianEvent(0.1),
    ]
    cap = 1.3
    with opened(place, cap, 1e-6) as ledger:
        for event in events:
            ledger.spend("people", event)
        found = ledger.account("people")
        assert [entry.event for entry in found.entries] == events
        assert found.enforced == enforced(events, cap, 1e-6)
        assert 1.27 < found.enforced.epsilon <= cap
        assert found.spent.epsilon() == account(events, 1e-6).epsilon() < found.enforced.epsilon
        with pytest.raises(BudgetExceeded):
            ledger.spend("people", GaussianEvent(0.1))
    # What is composed is less than what is added up: that is why it is composed.
    assert cap < sum(account([e], 1e-6).epsilon() for e in events)


def test_what_would_fit_at_fixed_prices_is_refused_with_the_reason(place: str) -> None:
    with opened(place, 1.0, 1e-3) as ledger:
        for _ in range(10):
            ledger.spend("people", PureEvent(0.1))
        with pytest.raises(BudgetExceeded, match=r"fixed beforehand it would be 0\.8") as refused:
            ledger.spend("people", PureEvent(0.1))
        assert refused.value.spent == pytest.approx(1.0)
        assert refused.value.together > 1.0
        assert ledger.account("people").remaining == 0.0


def test_what_an_earlier_version_accepted_stays_and_nothing_more_is_spent(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fixed_prices(events: Sequence[Event], epsilon: float, delta: float) -> filters.Cost:
        return filters.Cost(account(events, delta).epsilon(), "fixed")

    with opened(place, 1.0, 1e-3) as ledger, monkeypatch.context() as earlier:
        earlier.setattr(filters, "enforced", fixed_prices)
        for number in range(12):
            receipt = ledger.spend("people", PureEvent(0.1), request=f"r{number}")
        ledger.keep(receipt, b"release")
    with Ledger(place) as ledger:
        found = ledger.account("people")
        assert len(found.entries) == 12
        assert found.remaining == 0.0
        assert "accepted by an earlier version" in found.overdrawn
        with pytest.raises(BudgetExceeded, match=r"earlier version.*nothing more can be spent"):
            ledger.spend("people", PureEvent(1e-6))
        assert ledger.spend("people", PureEvent(0.1), request="r11").repeated
        assert ledger.kept("r11") == b"release"


def test_used_up_delta_is_used_up(place: str) -> None:
    with opened(place, 10.0, 1e-6) as ledger:
        ledger.spend("people", ApproximateEvent(0.1, 6e-7))
        with pytest.raises(BudgetExceeded, match="more δ than is left"):
            ledger.spend("people", ApproximateEvent(0.1, 6e-7))
        ledger.spend("people", ApproximateEvent(0.1, 4e-7))
        with pytest.raises(BudgetExceeded, match="more δ than is left"):
            ledger.spend("people", GaussianEvent(0.001))
        ledger.spend("people", PureEvent(9.8))
        assert ledger.verify() == 3
