"""Both phases with an engine of functions: whoever breaks, the others go on."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sudare.federation import Outcome, Settings, run
from sudare.federation import _serving as serving
from sudare.federation._messages import MOST_SESSIONS, Answer, Metric, terms_of, to_bytes
from sudare.federation._serving import settings_from
from sudare.foundations.checks import InvalidInput, SudareError
from sudare.study import read_study
from tests.federation.parties import (
    AT_ONCE,
    Hospital,
    Wire,
    agree_on_pool,
    agreed,
    hospitals,
    same,
)
from tests.federation.test_answering import forged
from tests.site.clinics import classes

POOL = replace(AT_ONCE, pool=True)


@pytest.fixture
def four(tmp_path: Path) -> list[Hospital]:
    return hospitals(tmp_path, 4)


def silent(_: bytes) -> None:
    return None


def blended(hospital: Hospital) -> list[str]:
    return [party.signer for party in hospital.model.story.parties]


def test_all_release_and_all_blend(four: list[Hospital], tmp_path: Path) -> None:
    settings = replace(AT_ONCE, place=str(tmp_path / "server"))
    outcome = run(Wire(four), agreed(four[0]), settings)
    assert set(outcome.releases.values()) == {"released"}
    assert set(outcome.blends.values()) == {"done"}
    assert outcome.metrics == {}
    assert outcome.summary == "4 of 4 nodes released, 4 of 4 blended"
    assert len(list((tmp_path / "server").iterdir())) == 4
    study = read_study(four[0].folder / "study.toml")
    for each in four:
        each.clinic.publish(study, tmp_path / "shared")
    for each in four:
        assert same(each.model, each.by_folder(tmp_path / "shared"))


def test_a_second_run_spends_nothing_and_changes_nothing(four: list[Hospital]) -> None:
    run(Wire(four), agreed(four[0]), AT_ONCE)
    accounts, models = [each.account for each in four], [each.model for each in four]
    run(Wire(four), agreed(four[0]), AT_ONCE)
    assert [each.account for each in four] == accounts
    assert all(same(each.model, model) for each, model in zip(four, models, strict=True))


def test_a_node_lost_in_phase_1_joins_the_next_run(four: list[Hospital]) -> None:
    outcome = run(Wire(four, {(3, 1): silent, (3, 2): silent}), agreed(four[0]), AT_ONCE)
    assert outcome.releases == {0: "released", 1: "released", 2: "released", 3: "no answer"}
    assert outcome.blends == {0: "done", 1: "done", 2: "done", 3: "no answer"}
    assert blended(four[0]) == ["Hospital 1", "Hospital 2"]
    outcome = run(Wire(four), agreed(four[0]), AT_ONCE)
    assert set(outcome.releases.values()) == {"released"}
    assert blended(four[0]) == ["Hospital 1", "Hospital 2", "Hospital 3"]
    assert [len(each.account.entries) for each in four] == [1, 1, 1, 1]


def test_a_node_lost_in_phase_2_stays_in_the_others_blends(four: list[Hospital]) -> None:
    outcome = run(Wire(four, {(1, 2): silent}), agreed(four[0]), AT_ONCE)
    assert set(outcome.releases.values()) == {"released"}
    assert outcome.blends == {0: "done", 1: "no answer", 2: "done", 3: "done"}
    assert blended(four[0]) == ["Hospital 1", "Hospital 2", "Hospital 3"]
    assert not (four[1].folder / "model.json").exists()


def test_a_node_that_comes_between_the_phases_blends(four: list[Hospital]) -> None:
    outcome = run(Wire(four, late={2}), agreed(four[0]), AT_ONCE)
    assert sorted(outcome.releases) == [0, 1, 3]
    assert outcome.blends[2] == "done"
    assert four[2].account.entries == ()


@pytest.mark.parametrize("change", [{"n": 10_000}, {"party": "Hospital 1"}])
def test_a_forged_release_reaches_everyone_and_is_used_by_nobody(
    four: list[Hospital], change: dict[str, Any]
) -> None:
    def forge(question: bytes) -> bytes:
        true = four[0].ask(question).release
        assert true is not None
        return to_bytes(Answer(status="released", release=forged(true, **change)))

    outcome = run(Wire(four, {(3, 1): forge}), agreed(four[0]), AT_ONCE)
    assert set(outcome.releases.values()) == {"released"}
    assert set(outcome.blends.values()) == {"done"}
    assert blended(four[1]) == ["Hospital 0", "Hospital 2"]
    assert any("signature" in r.reason for r in four[1].model.story.refusals)


def test_an_unknown_party_releases_to_no_avail(four: list[Hospital], tmp_path: Path) -> None:
    (stranger,) = hospitals(tmp_path / "elsewhere", 1)
    run(Wire([*four, stranger]), agreed(four[0]), AT_ONCE)
    assert blended(four[0]) == ["Hospital 1", "Hospital 2", "Hospital 3"]
    assert blended(stranger) == []


@pytest.mark.parametrize("answer", [b"", b"\xff" * 99, to_bytes(Answer(status="done"))[:-3]])
def test_an_answer_that_is_none_stops_nobody(four: list[Hospital], answer: bytes) -> None:
    outcome = run(Wire(four, {(0, 1): lambda _: answer}), agreed(four[0]), AT_ONCE)
    assert outcome.releases[0].startswith("failed: ")
    assert set(outcome.blends.values()) == {"done"}


def test_a_malicious_server_gets_nothing(four: list[Hospital]) -> None:
    for changed in ({"epsilon": 8.0}, {"task": "regression"}, {"study": "0" * 64}):
        for _ in range(2):
            outcome = run(Wire(four), agreed(four[0], **changed), AT_ONCE)
            assert all(word.startswith("refused: ") for word in outcome.releases.values())
            assert outcome.blends == {}
    assert all(each.account.entries == () for each in four)
    assert all(len(each.log) == 6 for each in four)


def test_metrics_are_passed_on(four: list[Hospital]) -> None:
    metric = Metric(measure="share wrong", value=0.2, noise_std=0.1, rows=24, epsilon=0.1)
    told = to_bytes(Answer(status="done", metric=metric))
    outcome = run(Wire(four, {(2, 2): lambda _: told}), agreed(four[0]), AT_ONCE)
    assert outcome.metrics == {2: metric}
    assert '"share wrong"' in outcome.to_json()


def test_a_pool_is_carried_and_blended(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 4, cap=9.0)
    agree_on_pool(made, kind="logistic")
    wire = Wire(made)
    outcome = run(wire, agreed(made[0]), POOL)
    assert outcome.releases == {}
    assert set(outcome.pools.values()) == {"pooled"}
    assert set(outcome.blends.values()) == {"done"}
    assert outcome.summary == "4 of 4 nodes pooled, 4 of 4 blended"
    assert wire.phase == 1 + 4 + 1  # joins, three sessions and a last look, blends
    assert len({each.pooled.read_bytes() for each in made}) == 1
    assert all(blended(each) == [pooled_name(made)] for each in made)
    accounts, models = [each.account for each in made], [each.model for each in made]
    again = run(Wire(made), agreed(made[0]), POOL)
    assert set(again.pools.values()) == {"pooled"}
    assert [each.account for each in made] == accounts
    assert [len(account.entries) for account in accounts] == [1, 1, 1, 1]
    assert all(same(each.model, model) for each, model in zip(made, models, strict=True))


def pooled_name(made: list[Hospital]) -> str:
    return f"pool of {len(made)} organisations"


def test_a_pool_and_releases_in_one_run(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, cap=20.0)
    agree_on_pool(made)
    outcome = run(Wire(made), agreed(made[0]), replace(POOL, also_release=True))
    assert outcome.summary == "3 of 3 nodes released, 3 of 3 nodes pooled, 3 of 3 blended"
    assert blended(made[0]) == [pooled_name(made)]  # nobody's rows count twice
    assert [len(each.account.entries) for each in made] == [2, 2, 2]


@pytest.mark.parametrize("phases", [(1,), (2,), (3,), (2, 3), (1, 2, 3)])
def test_a_node_that_misses_a_question_of_a_pool_is_asked_again(
    tmp_path: Path, phases: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_PATIENCE_SECONDS", 0.01)
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    outcome = run(Wire(made, {(1, phase): silent for phase in phases}), agreed(made[0]), POOL)
    assert set(outcome.pools.values()) == {"pooled"}
    assert [len(each.account.entries) for each in made] == [1, 1, 1]
    assert len({each.pooled.read_bytes() for each in made}) == 1


def test_a_node_that_comes_late_joins_the_pool(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    outcome = run(Wire(made, late={2}), agreed(made[0]), POOL)
    assert outcome.pools == dict.fromkeys(range(3), "pooled")


def test_a_pool_that_cannot_finish_ends(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 4, cap=9.0)
    agree_on_pool(made)
    short = replace(POOL, phase_seconds=0.01)
    gone = {(3, phase): silent for phase in range(1, 9)}
    outcome = run(Wire(made, gone), agreed(made[0]), short)
    assert outcome.pools == {0: "joined", 1: "joined", 2: "joined", 3: "no answer"}
    assert outcome.blends == {}
    assert all(each.account.entries == () for each in made)
    # It joins, and dies: the others have paid.
    del gone[3, 1]
    outcome = run(Wire(made, gone), agreed(made[0]), short)
    assert outcome.pools == {0: "answered", 1: "answered", 2: "answered", 3: "no answer"}
    assert [len(each.account.entries) for each in made] == [1, 1, 1, 0]
    assert outcome.blends == {}
    # It is back: the same run again, and nobody pays twice.
    outcome = run(Wire(made), agreed(made[0]), short)
    assert outcome.pools == dict.fromkeys(range(4), "pooled")
    assert [len(each.account.entries) for each in made] == [1, 1, 1, 1]


def test_whoever_takes_no_part_in_a_pool_stops_nobody(tmp_path: Path) -> None:
    made = hospitals(tmp_path / "known", 3, cap=9.0)
    agree_on_pool(made)
    (stranger,) = hospitals(tmp_path / "elsewhere", 1)
    outcome = run(Wire([*made, stranger]), agreed(made[0]), POOL)
    assert [outcome.pools[node] for node in range(3)] == ["pooled"] * 3
    assert outcome.pools[3].startswith("refused: the node's policy")
    assert outcome.blends[3] == "done"


def test_a_pool_that_nobody_has_a_plan_for_ends_at_once(four: list[Hospital]) -> None:
    wire = Wire(four)
    outcome = run(wire, agreed(four[0]), POOL)
    assert all(word.startswith("refused: ") for word in outcome.pools.values())
    assert wire.phase == 1
    assert outcome.blends == {}


def test_a_member_that_refuses_ends_the_pool_of_this_run(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)

    def lost(question: bytes) -> bytes:
        (secret,) = made[1].folder.glob("*.secret")
        secret.unlink()
        return to_bytes(made[1].ask(question))

    outcome = run(Wire(made, {(1, 2): lost}), agreed(made[0]), POOL)
    assert outcome.pools[1].startswith("refused: the node cannot go on with this pool")
    assert (outcome.pools[0], outcome.pools[2]) == ("answered", "answered")
    assert [len(each.account.entries) for each in made] == [1, 0, 1]


@pytest.mark.parametrize("status", ["pooled", "answered", "done"])
def test_a_word_that_answers_another_question_counts_for_nothing(
    tmp_path: Path, status: Any
) -> None:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    told = to_bytes(Answer(status=status))
    always = {(3, phase): lambda _: told for phase in range(1, 9)}
    outcome = run(Wire([*made, made[0]], always), agreed(made[0]), POOL)
    assert outcome.pools == dict.fromkeys(range(3), "pooled") | {3: outcome.pools[3]}
    assert outcome.pools[3].startswith("failed: ")


def test_nobody_waits_for_a_node_that_is_not_in_the_pool(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    asked = []

    def hanging(_: bytes) -> None:
        asked.append(1)

    wire = Wire([*made, made[0]], {(3, phase): hanging for phase in range(1, 9)})
    outcome = run(wire, agreed(made[0]), POOL)
    assert outcome.pools == dict.fromkeys(range(3), "pooled") | {3: "no answer"}
    assert len(asked) == 2  # to join, once; and to blend


@dataclass
class Renumbered(Wire):
    """Node 0 comes back under another number after phase 2."""

    def nodes(self) -> list[int]:
        return [1, 2, 70] if self.phase >= 2 else [0, 1, 2]

    def ask(self, question: bytes, nodes: Any, seconds: float, grace: float) -> dict[int, bytes]:
        asked = {node % 70: node for node in nodes}
        return {asked[k]: v for k, v in super().ask(question, asked, seconds, grace).items()}


def test_a_node_that_comes_back_under_another_number_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)

    def waited(seconds: float) -> None:
        raise AssertionError("for the old number")

    monkeypatch.setattr(serving, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=waited))
    outcome = run(Renumbered(made), agreed(made[0]), POOL)
    assert outcome.pools == {0: "answered", 1: "pooled", 2: "pooled", 70: "pooled"}
    assert [len(each.account.entries) for each in made] == [1, 1, 1]


def test_a_node_that_says_more_and_more_has_an_end(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    said = [0]

    def more(_: bytes) -> bytes:
        said[0] += 1
        return to_bytes(Answer(status="answered", answers=(b"x",) * said[0]))

    loud = {(0, phase): more for phase in range(2, 500)}
    outcome = run(Wire(made, loud), agreed(made[0]), replace(POOL, phase_seconds=0.01))
    assert said[0] <= MOST_SESSIONS + 2
    assert outcome.pools[1] == "answered"


class Empty:
    """Nobody, for some looks; then one node that says nothing."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def nodes(self) -> list[int]:
        self.looks -= 1
        return [] if self.looks >= 0 else [5]

    def ask(self, *_: object) -> dict[int, bytes]:
        return {}


def test_a_run_waits_for_nodes_and_gives_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_PATIENCE_SECONDS", 0.01)
    terms = terms_of(classes())
    outcome = run(Empty(3), terms, Settings(min_nodes=1, wait_seconds=30))
    assert replace(outcome, seconds=0.0) == Outcome(releases={5: "no answer"})
    assert outcome.seconds > 0
    with pytest.raises(SudareError, match="No node is connected"):
        run(Empty(10**9), terms, Settings(min_nodes=1, wait_seconds=0.05))
    outcome = run(Empty(0), terms, Settings(min_nodes=9, wait_seconds=0.05))
    assert outcome.releases == {5: "no answer"}


@pytest.mark.parametrize(
    "changed",
    [{"min-nodes": 0}, {"phase-seconds": 0}, {"wait-seconds": -1}, {"epsilon": "much"}],
)
def test_settings_that_cannot_be(changed: dict[str, Any]) -> None:
    terms = terms_of(classes())
    flat = {name: getattr(terms, name) for name in terms.__struct_fields__}
    assert settings_from(flat) == (terms, Settings())
    assert settings_from(flat | {"min-nodes": 7})[1].min_nodes == 7
    with pytest.raises(InvalidInput):
        settings_from(flat | changed)
    with pytest.raises(InvalidInput, match="configuration"):
        settings_from({})
