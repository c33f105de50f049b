"""Verdicts are read by people: the words are part of the contract. No randomness here."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.audit._findings import ExactFinding, Finding, rounded_down


def finding(**changes):
    values = {
        "epsilon": 1.0,
        "delta": 0.0,
        "epsilon_lower": 1.4267,
        "confidence": 0.999,
        "runs": 200_000,
        "event": "output 1 below \N{MINUS SIGN}3.2",
        "more_likely_under": "first",
        "count_first": 3000,
        "count_second": 600,
        "counted_runs": 100_000,
    }
    return Finding(**{**values, **changes})


def test_a_refuted_claim():
    found = finding()
    assert found.violated
    assert found.verdict == (
        "The mechanism claims ε = 1. In 200,000 runs on each of two neighbouring inputs, the event "
        "'output 1 below −3.2' shows ε ≥ 1.42 with 99.9 % confidence: the claim is false."
    )


def test_a_claim_that_stands():
    found = finding(epsilon_lower=0.8399, delta=1e-5)
    assert not found.violated
    assert found.verdict == (
        "The mechanism claims ε = 1 with δ = 1e-05. In 200,000 runs on each of two neighbouring "
        "inputs, no evidence against the claim was found (largest lower bound on ε: 0.839, with "
        "99.9 % confidence). A black-box audit cannot prove a claim; it can only fail to refute it."
    )


def test_a_bound_equal_to_the_claim_is_no_violation():
    assert not finding(epsilon_lower=1.0).violated
    assert finding(epsilon_lower=math.nextafter(1.0, 2.0)).violated


def test_a_narrow_violation_is_not_rounded_away():
    assert "ε ≥ 1.0004 " in finding(epsilon_lower=1.00042).verdict


@given(
    st.floats(min_value=1e-12, max_value=1e6),
    st.one_of(st.none(), st.floats(min_value=1e-12, max_value=1e6)),
)
def test_rounding_never_overstates(value, above):
    above = -math.inf if above is None else above
    shown = float(rounded_down(value, above=above))
    assert shown <= value
    if above < value:
        assert above < shown
    else:
        assert shown == value


def test_rounding_is_short():
    assert rounded_down(1.23456) == "1.23"
    assert rounded_down(0.0) == "0"
    assert rounded_down(8.7999) == "8.79"
    assert rounded_down(123.456) == "123"


def test_exact_verdicts():
    caught = ExactFinding(0.1, 0.0, 1.12e-5, 0.1113, 4e-15)
    assert caught.violated
    assert caught.verdict == (
        "The mechanism claims ε = 0.1. Computed from its output distributions on two neighbouring "
        "inputs, without sampling, ε = 0.1 needs δ = 1.12e-05 (known within 4e-15; largest log "
        "ratio met: 0.1113): the claim is false."
    )
    kept = ExactFinding(1.0, 0.01, 0.009, 55.0, 1e-9)
    assert not kept.violated
    assert "the claim holds for these two inputs" in kept.verdict
    assert "55" not in kept.verdict, "a log ratio says nothing about a claim with δ > 0"


def test_an_exact_violation_must_exceed_the_integration_error():
    assert not ExactFinding(1.0, 0.0, 1e-12, 1.0, 2e-12).violated
    assert ExactFinding(1.0, 0.0, 3e-12, 1.0, 2e-12).violated


@pytest.mark.parametrize("found", [finding(), ExactFinding(1.0, 0.0, 0.5, math.inf, 1e-12)])
def test_findings_survive_strict_json(found):
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["violated"] is True
    assert data["verdict"] == found.verdict
    assert data["epsilon"] == 1.0
