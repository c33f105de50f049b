"""The node's side: right answers, refusals, and what they leave behind."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sudare import site
from sudare.exchange import Keyring, load_keyring, new_key
from sudare.federation import BlendQuestion, QuestionTerms, ReleaseQuestion, answer
from sudare.federation import _answering as answering
from sudare.federation._messages import Answer, read_answer, to_bytes
from sudare.foundations.privacy import PureEvent
from sudare.ledger import Ledger
from sudare.study import raw_content, read_study
from tests.federation.parties import Hospital, agreed, hospitals, same
from tests.site.clinics import classes

CANARY = "canary-4471"


@pytest.fixture
def pair(tmp_path: Path) -> list[Hospital]:
    return hospitals(tmp_path, 2)


def released(hospital: Hospital) -> bytes:
    made = hospital.ask(ReleaseQuestion(terms=agreed(hospital)))
    assert made.status == "released"
    assert made.release is not None
    return made.release


def blend(hospital: Hospital, *releases: bytes) -> Any:
    return hospital.ask(BlendQuestion(terms=agreed(hospital), releases=releases))


def test_a_release_is_what_the_others_verify(pair: list[Hospital]) -> None:
    first, second = pair
    study = read_study(second.folder / "study.toml")
    trusted = site.verify(released(first), load_keyring(second.folder / "trust.toml"), study)
    assert trusted.signer == "Hospital 0"
    assert [entry.released for entry in first.account.entries] == [True]


def test_asked_again_a_node_hands_out_what_it_kept_and_spends_nothing(
    pair: list[Hospital],
) -> None:
    first = released(pair[0])
    before = pair[0].account
    assert {released(pair[0]) for _ in range(5)} == {first}
    assert pair[0].account == before
    assert len(before.entries) == 1
    assert pair[0].log[-1]["detail"] == "the stored release, nothing spent"


def test_asked_by_several_at_once_a_node_draws_once(pair: list[Hospital]) -> None:
    with ThreadPoolExecutor(4) as askers:
        made = list(askers.map(released, [pair[0]] * 4))
    assert len(set(made)) == 1
    assert len(pair[0].account.entries) == 1


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"study": "0" * 64}, "study"),
        ({"study": "\x1b[31m" + CANARY}, "study"),
        ({"epsilon": 8.0}, "terms"),
        ({"epsilon": 1.0}, "terms"),
        ({"epsilon": float("nan")}, "terms"),
        ({"delta": 1e-3}, "terms"),
        ({"task": "regression"}, "terms"),
        ({"model": "output"}, "terms"),
        ({"name": CANARY}, "terms"),
    ],
)
@pytest.mark.parametrize("phase", [1, 2])
def test_other_terms_are_refused(
    pair: list[Hospital], changed: dict[str, Any], reason: str, phase: int
) -> None:
    terms = agreed(pair[0], **changed)
    question = ReleaseQuestion(terms=terms)
    made = pair[0].ask(question if phase == 1 else BlendQuestion(terms=terms, releases=()))
    assert (made.status, made.reason) == ("refused", reason)
    assert made.release is None
    nothing_happened(pair[0])
    (line,) = pair[0].log
    assert (line["answered"], line["reason"]) == ("refused", reason)
    assert CANARY not in (pair[0].folder / "federation.log").read_text()
    assert pair[0].ask(ReleaseQuestion(terms=agreed(pair[0]))).status == "released"


def nothing_happened(hospital: Hospital) -> None:
    assert hospital.account.entries == ()
    assert not (hospital.folder / "releases").exists()
    assert not (hospital.folder / "model.json").exists()


def test_a_larger_price_in_the_servers_study_is_another_study(pair: list[Hospital]) -> None:
    other = classes(epsilon=8.0)
    made = pair[0].ask(ReleaseQuestion(terms=agreed(pair[0], study=other.digest(), epsilon=8.0)))
    assert made.reason == "study"
    nothing_happened(pair[0])


@pytest.mark.parametrize(
    "question",
    [
        b"",
        b"\x00" * 40,
        b"\x81" * 20_000,
        json.dumps({"step": "release"}).encode(),
        to_bytes(
            ReleaseQuestion(
                terms=QuestionTerms(study="", name="", task="", model="", epsilon=1, delta=0),
                protocol="2",
            )
        ),
    ],
)
def test_what_is_no_question_is_refused(pair: list[Hospital], question: bytes) -> None:
    made = pair[0].ask(question)
    assert (made.status, made.reason) == ("refused", "protocol")
    nothing_happened(pair[0])


def test_a_policy_can_keep_the_node_from_either_step(pair: list[Hospital]) -> None:
    pair[0].policy(release=False)
    made = pair[0].ask(ReleaseQuestion(terms=agreed(pair[0])))
    assert (made.status, made.reason) == ("refused", "policy")
    assert blend(pair[0]).status == "done"
    pair[1].policy(blend=False)
    assert blend(pair[1]).reason == "policy"
    assert released(pair[1])


def test_a_blend_equals_that_of_a_shared_folder(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 4, rows=40)
    releases = [released(each) for each in made]
    shared, study = tmp_path / "shared", read_study(made[0].folder / "study.toml")
    for each in made:
        assert each.clinic.publish(study, shared).repeated
    for each in made:
        done = blend(each, *releases)
        assert (done.status, done.metric) == ("done", None)
        assert len(each.model.story.parties) == 3
        assert same(each.model, each.by_folder(shared))
    assert (made[0].folder / "model.json").stat().st_mode & 0o077 == 0


def forged(data: bytes, **changed: Any) -> bytes:
    """The release with other contents under the old signature."""
    head, body, signature = data.split(b".")
    contents = json.loads(base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4)))
    contents["release"] |= changed
    body = base64.urlsafe_b64encode(json.dumps(contents).encode()).rstrip(b"=")
    return b".".join((head, body, signature))


def test_forged_and_foreign_releases_are_left_out(tmp_path: Path) -> None:
    first, second, third = hospitals(tmp_path / "known", 3)
    (stranger,) = hospitals(tmp_path / "stranger", 1)
    true = released(second)
    bad = [forged(released(third), n=10_000), released(stranger), b"nonsense", true[:-9]]
    done = blend(first, true, *bad)
    assert done.status == "done"
    assert [party.signer for party in first.model.story.parties] == ["Hospital 1"]
    reasons = sorted(refusal.reason[:24] for refusal in first.model.story.refusals)
    assert reasons == [
        "Signed by a key that is ",
        "The signature is not 'Ho",
        "The signature is not 'Ho",
        "This is not a signed rel",
    ]
    kept = [path.read_bytes() for path in (first.folder / "releases").iterdir()]
    assert kept == [true]


def test_what_was_received_stays(tmp_path: Path) -> None:
    first, second, third = hospitals(tmp_path, 3)
    assert blend(first, released(second), released(third)).status == "done"
    before = first.model
    assert blend(first).status == "done"  # a server that sends nothing takes nothing away
    assert same(first.model, before)
    ring = load_keyring(first.folder / "trust.toml")
    kept = Keyring({name: key for name, key in ring if name != "Hospital 2"})
    (first.folder / "trust.toml").write_text(kept.to_toml())
    assert blend(first).status == "done"  # a key that is no longer trusted does
    assert [party.signer for party in first.model.story.parties] == ["Hospital 1"]


def test_the_own_release_is_never_blended_whatever_it_calls_itself(tmp_path: Path) -> None:
    first, second = hospitals(tmp_path, 2, cap=9.0)
    renamed = first.configuration.read_text().replace('"Hospital 0"', '"Formerly"')
    own = released(first)
    first.configuration.write_text(renamed)
    assert blend(first, own, released(second)).status == "done"
    assert [party.signer for party in first.model.story.parties] == ["Hospital 1"]


def test_failures_are_told_to_the_operator_alone(pair: list[Hospital]) -> None:
    data = pair[0].clinic.data
    good = data.read_text()
    data.write_text(good.replace("yes", CANARY))
    made = pair[0].ask(ReleaseQuestion(terms=agreed(pair[0])))
    assert (made.status, made.reason, made.release) == ("failed", "node", None)
    assert "no budget" in pair[0].log[-1]["detail"]
    data.write_text(good)
    (pair[0].folder / "study.toml").unlink()
    assert read_answer(answer(b"", pair[0].configuration)).reason == "protocol"
    made = pair[0].ask(ReleaseQuestion(terms=agreed(pair[1])))
    assert (made.status, made.reason) == ("failed", "node")
    assert "Cannot read" in pair[0].log[-1]["detail"]
    assert CANARY not in (pair[0].folder / "federation.log").read_text()


def test_words_of_others_go_nowhere(pair: list[Hospital], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr("sudare.site.publish_unattended", broken)
    made = pair[0].ask(ReleaseQuestion(terms=agreed(pair[0])))
    assert (made.status, made.reason) == ("failed", "node")
    assert pair[0].log[-1]["detail"] == "ValueError"


def test_a_node_without_configuration_says_that_it_failed(tmp_path: Path) -> None:
    assert read_answer(answer(b"", tmp_path / "none.toml")).reason == "node"


def test_a_log_that_cannot_be_written_stops_nothing(pair: list[Hospital]) -> None:
    (pair[0].folder / "federation.log").mkdir()
    assert released(pair[0])


def test_an_empty_budget_is_not_told(tmp_path: Path) -> None:
    (poor,) = hospitals(tmp_path, 1, cap=1.0)
    made = poor.ask(ReleaseQuestion(terms=agreed(poor)))
    assert to_bytes(made) == to_bytes(made.__class__(status="failed", reason="node"))
    assert "Nothing was spent" in poor.log[-1]["detail"]


def test_answers_leave_at_whole_multiples(
    pair: list[Hospital], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair[0].configuration.write_text(
        pair[0].configuration.read_text().replace("answer_seconds = 0", "answer_seconds = 7")
    )
    slept: list[float] = []
    looks = iter([100.0, 102.5, 200.0, 216.0])  # when a question came, and when its answer was made
    clock = SimpleNamespace(monotonic=lambda: next(looks), sleep=slept.append)
    monkeypatch.setattr(answering, "time", clock)
    assert released(pair[0])
    assert pair[0].ask(b"").status == "refused"
    assert slept == [4.5, 5.0]


def test_a_key_of_ones_own_choosing_does_not_help_a_forger(pair: list[Hospital]) -> None:
    first, second = pair
    second.clinic.key = new_key()
    (second.folder / "key.json").unlink()
    second.clinic.key.save(second.folder / "key.json")
    assert blend(first, released(second)).status == "done"
    assert first.model.story.parties == ()


def events(hospital: Hospital) -> list[Any]:
    return [entry.event for entry in hospital.account.entries]


def metrics(hospital: Hospital, *releases: bytes) -> Any:
    return blend(hospital, *releases).metric


def test_a_metric_is_told_only_if_the_policy_pays_for_it(
    tmp_path: Path,
) -> None:
    first, second, third = hospitals(tmp_path, 3, cap=5.0)
    releases = [released(second), released(third)]
    assert metrics(first, *releases) is None
    assert events(first) == []
    first.policy(metric_epsilon=0.5)
    told = metrics(first, *releases)
    assert (told.measure, told.rows, told.epsilon) == ("share wrong", 24, 0.5)
    assert events(first) == [PureEvent(0.5, unit="patient")]


def test_nothing_is_told_beyond_the_cap(tmp_path: Path) -> None:
    first, second = hospitals(tmp_path, 2, cap=4.0)
    released(first)
    first.policy(metric_epsilon=0.5)
    done = blend(first, released(second))
    assert (done.status, done.metric) == ("done", None)
    assert "no metric" in first.log[-1]["detail"]
    assert len(first.account.entries) == 1


def reopened(hospital: Hospital, text: str) -> None:
    """Other data, opened in the ledger under a name of their own."""
    hospital.clinic.data.write_text(text)
    with Ledger(hospital.clinic.ledger) as ledger:
        ledger.open("other", ledger.fingerprint(raw_content(hospital.clinic.data)), 9.0, 1e-6)


@pytest.mark.parametrize("last", ["yes", "no"])
def test_rows_of_one_class_are_answered_like_any_other(pair: list[Hospital], last: str) -> None:
    """Otherwise the answer told whether one person is the only one who is ill."""
    first, second = pair
    lines = ["pressure,age,sex,ill", *["120,50,m,no"] * 29, f"120,50,m,{last}"]
    reopened(first, "\n".join(lines) + "\n")
    done = blend(first, released(second))
    assert to_bytes(done) == to_bytes(Answer(status="done"))
    assert first.model.rows == 30


def test_a_label_that_the_study_does_not_know_is_released_and_charged(
    pair: list[Hospital],
) -> None:
    first = pair[0]
    reopened(first, first.clinic.data.read_text() + f"120,50,m,{CANARY},x\n")
    assert released(first)
    with Ledger(first.clinic.ledger) as ledger:
        assert [entry.released for entry in ledger.account("other").entries] == [True]


def test_a_blend_that_fails_is_told_to_the_operator_alone(
    pair: list[Hospital], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr("sudare.site.blend_unattended", broken)
    monkeypatch.setattr("sudare.federation._answering.tell_metric", broken)
    pair[0].policy(metric_epsilon=0.5)
    assert to_bytes(blend(pair[0])) == to_bytes(Answer(status="done"))
    assert pair[0].log[-1]["detail"] == "no model: ValueError; no metric: ValueError"
