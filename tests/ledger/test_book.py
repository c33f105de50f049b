"""What a ledger promises, whichever database it lives in."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sudare.foundations.checks import InvalidInput, PrivacyError
from sudare.foundations.privacy import (
    ApproximateEvent,
    ConcentratedEvent,
    GaussianEvent,
    PureEvent,
)
from sudare.ledger import BudgetExceeded, Ledger, LedgerError, rekey
from tests.ledger.edits import edit, statements
from tests.ledger.filled import PRINT, opened
from tests.support import ROOT


def test_a_data_set_is_opened_once_and_its_cap_stays(place: str) -> None:
    with Ledger(place) as ledger:
        first = ledger.open("people", PRINT, 1.0, 1e-6)
        assert (first.epsilon, first.delta, first.entries) == (1.0, 1e-6, ())
        assert first.remaining == 1.0
        assert ledger.open("people", PRINT, 1.0, 1e-6) == first
        for epsilon, delta in [(1.1, 1e-6), (0.9, 1e-6), (1.0, 1e-5), (1.0, 0.0)]:
            with pytest.raises(PrivacyError, match="a cap is never moved"):
                ledger.open("people", PRINT, epsilon, delta)
        assert ledger.account("people") == first


def test_the_same_data_under_another_name_are_refused(place: str) -> None:
    with Ledger(place) as ledger:
        print_a = ledger.fingerprint([b"rows of ", b"a"])
        print_b = ledger.fingerprint([b"rows of b"])
        ledger.open("a", print_a, 1.0)
        with pytest.raises(PrivacyError, match="already in the ledger as 'a'"):
            ledger.open("copy of a", print_a, 5.0)
        with pytest.raises(PrivacyError, match="other contents"):
            ledger.open("a", print_b, 1.0)
        ledger.open("b", print_b, 1.0)
        with pytest.raises(PrivacyError):
            ledger.open("a", print_b, 1.0)
        assert (ledger.named(print_a), ledger.named(print_b)) == ("a", "b")
        assert ledger.named("0" * 64) is None
        assert ledger.datasets() == ["a", "b"]


def test_fingerprints_are_of_the_bytes_and_of_this_ledger_alone(tmp_path: Path) -> None:
    with Ledger(tmp_path / "a.db") as a, Ledger(tmp_path / "b.db") as b:
        prints = [a.fingerprint(parts) for parts in ([b"abc"], [b"a", b"bc"], [b"", b"abc", b""])]
        assert len(set(prints)) == 1
        assert a.fingerprint([b"abd"]) != prints[0] != b.fingerprint([b"abc"])
    with Ledger(tmp_path / "a.db") as again:
        assert again.fingerprint([b"abc"]) == prints[0]


def test_ten_tenths_fit_and_the_eleventh_does_not(place: str) -> None:
    with opened(place) as ledger:
        for number in range(1, 11):
            assert ledger.spend("people", PureEvent(0.1)).number == number
        for amount in (0.1, 1e-6):
            with pytest.raises(BudgetExceeded) as refused:
                ledger.spend("people", PureEvent(amount))
            assert refused.value.cap == 1.0
            assert refused.value.spent == pytest.approx(1.0, abs=1e-12)
            assert refused.value.requested == pytest.approx(amount)
            assert refused.value.together == pytest.approx(1.0 + amount, abs=1e-12)
        assert len(ledger.account("people").entries) == 10
        assert ledger.account("people").remaining == 0.0
        assert ledger.verify() == 10


def test_a_cap_without_delta_takes_no_gaussian(place: str) -> None:
    with opened(place) as ledger:
        with pytest.raises(BudgetExceeded) as refused:
            ledger.spend("people", ConcentratedEvent(1e-9))
        assert math.isinf(refused.value.together)
        assert "inf" not in str(refused.value)
        assert ledger.verify() == 0


def test_units_do_not_mix(place: str) -> None:
    with opened(place) as ledger:
        ledger.spend("people", PureEvent(0.1, unit="patient"))
        with pytest.raises(InvalidInput, match="same unit"):
            ledger.spend("people", PureEvent(0.1, unit="visit"))
        assert ledger.verify() == 1


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(1e-4, 0.5), min_size=1, max_size=12))
def test_what_fits_is_taken_and_what_does_not_is_not(tmp_path: Path, amounts: list[float]) -> None:
    file = tmp_path / f"{hash(tuple(amounts))}.db"
    taken = Fraction(0)
    with opened(str(file)) as ledger:
        for amount in amounts:
            fits = taken + Fraction(amount) <= 1 + Fraction(1, 10**9)
            try:
                ledger.spend("people", PureEvent(amount))
            except BudgetExceeded:
                assert not fits
            else:
                assert fits
                taken += Fraction(amount)
        assert ledger.account("people").spent.epsilon() >= float(taken)


def test_a_request_asked_again_is_charged_once(place: str) -> None:
    with opened(place) as ledger:
        first = ledger.spend("people", PureEvent(1.0), request="r", purpose="a study")
        assert not first.repeated
        assert ledger.spend("people", PureEvent(1.0), request="r") == replace(first, repeated=True)
    with Ledger(place) as ledger:
        assert ledger.spend("people", PureEvent(1.0), request="r") == replace(first, repeated=True)
        (entry,) = ledger.account("people").entries
        assert (entry.purpose, entry.released, entry.moment) == ("a study", False, first.moment)


def test_a_changed_request_needs_a_name_of_its_own(place: str) -> None:
    with opened(place) as ledger:
        ledger.open("others", "cd" * 32, 5.0)
        ledger.spend("people", PureEvent(0.5), request="r")
        for dataset, event in [("people", PureEvent(0.25)), ("others", PureEvent(0.5))]:
            with pytest.raises(PrivacyError, match="request of its own"):
                ledger.spend(dataset, event, request="r")
        assert ledger.verify() == 1


def test_the_first_release_to_be_kept_wins(place: str) -> None:
    with opened(place) as ledger, Ledger(place) as other:
        receipt = ledger.spend("people", PureEvent(1.0), request="r")
        again = other.spend("people", PureEvent(1.0), request="r")
        assert ledger.kept("r") is None
        assert other.keep(again, b"\x00second\xff") == b"\x00second\xff"
        assert ledger.keep(receipt, b"first") == b"\x00second\xff"
        assert ledger.kept("r") == other.kept("r") == b"\x00second\xff"
        assert ledger.account("people").entries[0].released


def test_what_was_charged_is_made_once(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter([b"first", b"second", b"third"])

    def full(*_: object) -> bytes:
        raise LedgerError("the disk is full; nothing was spent")

    with opened(place) as ledger:
        receipt = ledger.spend("people", PureEvent(1.0), request="r")
        with monkeypatch.context() as patch:
            patch.setattr(ledger, "keep", full)
            with pytest.raises(LedgerError) as refused:
                ledger.keep_once(receipt, lambda: next(made))
        # Not that nothing was spent: it was, before.
        assert str(refused.value) == (
            "the disk is full; the spend is on record, and running it again costs nothing more"
        )
        assert ledger.keep_once(receipt, lambda: next(made)) == (b"second", False)
        assert ledger.keep_once(receipt, lambda: next(made)) == (b"second", True)
        assert ledger.keep_once(receipt, lambda: next(made), "part") == (b"third", False)
        assert ledger.verify() == 1


def test_nothing_is_kept_that_was_not_charged(place: str, tmp_path: Path) -> None:
    with opened(str(tmp_path / "other.db")) as other:
        foreign = other.spend("people", PureEvent(1.0), request="r")
    with opened(place) as ledger:
        with pytest.raises(PrivacyError, match="no such spend"):
            ledger.keep(foreign, b"release")
        ledger.spend("people", PureEvent(1.0), request="r")
        with pytest.raises(PrivacyError, match="no such spend"):
            ledger.keep(replace(foreign, chain="0" * 64), b"release")
        assert ledger.kept("r") is None


def test_mistakes_are_explained(place: str) -> None:
    with opened(place) as ledger:
        with pytest.raises(InvalidInput, match="not in the ledger: open it"):
            ledger.spend("nobody", PureEvent(0.1))
        with pytest.raises(InvalidInput, match="not in the ledger: open it"):
            ledger.account("nobody")
        with pytest.raises(InvalidInput, match="Unknown event"):
            ledger.spend("people", 0.1)  # type: ignore[arg-type]
        for name in ("", " ", "a\nb", "\x00", "\ud800", "\x1b[2J"):
            with pytest.raises(InvalidInput, match="printable"):
                ledger.open(name, "ef" * 32, 1.0)
            with pytest.raises(InvalidInput, match="printable"):
                ledger.spend("people", PureEvent(0.1), request=name)
            if name.strip():
                with pytest.raises(InvalidInput, match="printable"):
                    ledger.spend("people", PureEvent(0.1), purpose=name)
        for cap in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(InvalidInput):
                ledger.open("more", "ef" * 32, cap)
        assert (ledger.verify(), ledger.datasets()) == (0, ["people"])


def test_hostile_names_are_only_names(place: str) -> None:
    name = "Robert'); DROP TABLE ledger_events;-- ? %s {} $$ 東京"
    with Ledger(place) as ledger:
        ledger.open(name, PRINT, 1.0)
        receipt = ledger.spend(name, PureEvent(0.5), request=name, purpose=name)
        assert ledger.keep(receipt, name.encode()) == ledger.kept(name)
        assert ledger.account(name).entries[0].purpose == name
        assert ledger.verify() == 1


def test_racing_spenders_take_exactly_what_fits(place: str) -> None:
    processes, amount, fit = 8, 0.03, 33
    opened(place).close()
    done = subprocess.run(
        [sys.executable, "-m", "tests.ledger.race", place, str(amount), str(processes)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(map(int, done.stdout.split())) == list(range(1, fit + 1))
    with Ledger(place) as ledger:
        assert ledger.verify() == ledger._key().mark.entries == fit
        assert len(ledger.account("people").entries) == fit


@pytest.mark.parametrize("table", ["meta", "datasets", "events", "releases"])
def test_rows_cannot_be_changed_or_removed(place: str, table: str) -> None:
    with opened(place) as ledger:
        ledger.keep(ledger.spend("people", PureEvent(0.5), request="r"), b"release")
    (column,) = ({"meta": "value", "datasets": "epsilon", "events": "event"}.get(table, "seal"),)
    changes = [f"UPDATE ledger_{table} SET {column} = 'x'", f"DELETE FROM ledger_{table}"]
    if place.startswith("postgresql:"):
        changes.append(f"TRUNCATE ledger_{table} CASCADE")
    with statements(place) as connection:
        for change in changes:
            with pytest.raises(Exception, match="a ledger only grows"):
                connection.execute(change)
    with Ledger(place) as ledger:
        assert ledger.verify() == 1


EDITS = {
    "a cheaper event": "UPDATE ledger_events SET event = replace(event, '0.5', '0.1')",
    "another data set": "UPDATE ledger_events SET dataset = 'others' WHERE number = 2",
    "another purpose": "UPDATE ledger_events SET purpose = 'nothing' WHERE number = 1",
    "another request": "UPDATE ledger_events SET request = 'z' WHERE number = 2",
    "another time": "UPDATE ledger_events SET moment = '2001-01-01' WHERE number = 1",
    "a first entry removed": "DELETE FROM ledger_events WHERE number = 1",
    "a released last entry removed": "DELETE FROM ledger_events WHERE number = 3",
    "a larger cap": f"UPDATE ledger_datasets SET epsilon = '{(9.0).hex()}' WHERE name = 'people'",
    "a larger delta": f"UPDATE ledger_datasets SET delta = '{(0.5).hex()}'",
    "other contents": "UPDATE ledger_datasets SET fingerprint = 'z' WHERE name = 'people'",
    "another key": "UPDATE ledger_meta SET value = 'z' WHERE name = 'fingerprint-key'",
    "a forged entry": (
        "INSERT INTO ledger_events SELECT 4, dataset, event, purpose, 'z', moment, chain "
        "FROM ledger_events WHERE number = 3"
    ),
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS.keys())
def test_edited_rows_are_noticed(place: str, change: str) -> None:
    with opened(place, 2.0) as ledger:
        ledger.open("others", "cd" * 32, 1.0)
        for request in ("r", "s", "t"):
            receipt = ledger.spend("people", PureEvent(0.5), request=request)
        ledger.keep(receipt, b"release")
    edit(place)
    with Ledger(place) as ledger:
        assert ledger.verify() == 3  # without an edit it is sound
        edit(place, change)
        for attempt in (
            lambda: Ledger(place),
            ledger.verify,
            lambda: ledger.account("people"),
            lambda: ledger.spend("people", PureEvent(0.1)),
            lambda: ledger.open("people", PRINT, 2.0),
            lambda: ledger.open("new", "ef" * 32, 2.0),
        ):
            with pytest.raises(LedgerError, match=r"behind sudare's back.*Nothing was spent"):
                attempt()


def test_an_edited_release_is_noticed(place: str) -> None:
    with opened(place) as ledger:
        receipt = ledger.spend("people", PureEvent(0.5), request="r")
        ledger.keep(receipt, b"release")
    other = "'other'::bytea" if place.startswith("postgresql:") else "x'00'"
    edit(place, f"UPDATE ledger_releases SET payload = {other}")
    with Ledger(place) as ledger:
        for attempt in (lambda: ledger.kept("r"), lambda: ledger.keep(receipt, b"release")):
            with pytest.raises(LedgerError, match="A release in the ledger was changed"):
                attempt()


def test_a_later_version_is_refused(place: str) -> None:
    opened(place).close()
    edit(place, "UPDATE ledger_meta SET value = '3' WHERE name = 'version'")
    with pytest.raises(LedgerError, match=r"later sudare \(ledger version 3\).*Nothing was spent"):
        Ledger(place)


def test_an_event_of_a_later_version_is_refused(place: str) -> None:
    with opened(place) as ledger:
        ledger.spend("people", PureEvent(0.5), request="r")
    line = '[{"kind":"pure/2","epsilon":0.5}]'
    edit(place, f"UPDATE ledger_events SET event = '{line}'")
    rekey(place)
    with (
        Ledger(place) as ledger,
        pytest.raises(LedgerError, match=r"update it\. Nothing was spent"),
    ):
        ledger.spend("people", PureEvent(0.1))


def test_golden_ledger_is_read_for_ever(tmp_path: Path) -> None:
    golden = ROOT / "tests" / "golden" / "ledger-1.db"
    copy = tmp_path / "ledger.db"
    copy.write_bytes(golden.read_bytes())
    with Ledger(copy) as ledger:
        assert ledger.datasets() == ["patients 2025", "visits"]
        assert ledger.named(ledger.fingerprint([b"age,ill\n", b"40,no\n"])) == "patients 2025"
        patients = ledger.account("patients 2025")
        assert (patients.epsilon, patients.delta) == (3.0, 1e-5)
        assert [(e.number, e.event, e.purpose, e.released) for e in patients.entries] == [
            (1, PureEvent(0.1, unit="patient"), "first study", True),
            (2, GaussianEvent(0.30000000000000004, unit="patient"), "second study", False),
            (4, ApproximateEvent(1.0, 1e-6, unit="patient"), "", False),
        ]
        assert ledger.account("visits").entries[0].event == ConcentratedEvent(0.125)
        assert ledger.kept("request-1") == b"\x00 a release \xff"
        assert ledger.verify() == 4
        receipt = ledger.spend("patients 2025", PureEvent(0.1, unit="patient"), request="request-1")
        assert receipt.repeated
        assert receipt.chain == GOLDEN_CHAIN
        assert ledger.spend("visits", ConcentratedEvent(0.125)).number == 5


GOLDEN_CHAIN = "03364020794bf7c716284da859b343e05e4715d11cb89a7411d3f7f671d57df3"


def test_a_release_in_parts_is_paid_once_and_each_part_kept_once(place: str) -> None:
    with Ledger(place) as ledger:
        ledger.open("people", PRINT, 1.0)
        receipt = ledger.spend("people", PureEvent(0.5), request="r")
        for number in range(3):
            part, payload = f"session-{number}", bytes([number])
            assert ledger.kept("r", part) is None
            assert ledger.keep(receipt, payload, part) == payload
            assert ledger.keep(receipt, b"a second draw", part) == payload
        assert ledger.kept("r") is None  # the whole is another thing
        for wrong in ("two words", "x" * 41, "a/b"):
            with pytest.raises(InvalidInput, match="short word"):
                ledger.keep(receipt, b"", wrong)
    with Ledger(place) as ledger:
        assert [ledger.kept("r", f"session-{n}") for n in range(3)] == [b"\0", b"\1", b"\2"]
        assert [entry.released for entry in ledger.account("people").entries] == [True]
    edit(place, "UPDATE ledger_parts SET part = 'session-9' WHERE part = 'session-0'")
    with pytest.raises(LedgerError, match="A release in the ledger was changed"):
        Ledger(place)


def test_room_is_looked_for_without_a_charge(place: str) -> None:
    with Ledger(place) as ledger:
        ledger.open("people", PRINT, 1.0)
        ledger.check_room("people", PureEvent(1.0))
        with pytest.raises(BudgetExceeded):
            ledger.check_room("people", PureEvent(1.1))
        assert ledger.account("people").entries == ()
