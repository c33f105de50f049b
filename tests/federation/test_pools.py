"""A node's part in a pool: the same bytes for whoever asks, one charge, the same sum for all."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sudare import site
from sudare.exchange import Keyring, load_keyring, new_key
from sudare.federation import BlendQuestion, PoolAnswerQuestion, PoolJoinQuestion, ReleaseQuestion
from sudare.federation._messages import Answer, to_bytes
from sudare.ledger import Ledger
from sudare.pooling import PoolTerms, read_plan
from sudare.releases import PooledLearner, PooledRelease
from sudare.study import read_study
from tests.federation.parties import Hospital, agree_on_pool, agreed, hospitals, same
from tests.federation.test_answering import reopened

KINDS: list[Any] = ["moments", "logistic", "gradients"]


@pytest.fixture
def three(tmp_path: Path) -> list[Hospital]:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    return made


def asked_to_join(hospital: Hospital) -> Answer:
    return hospital.ask(PoolJoinQuestion(terms=agreed(hospital)))


def joined(hospital: Hospital) -> bytes:
    made = asked_to_join(hospital)
    assert (made.status, made.reason) == ("joined", None)
    assert made.join is not None
    return made.join


def shown(hospital: Hospital, joins: list[bytes], answers: list[bytes]) -> Answer:
    """What a node says to all that was handed over so far."""
    question = PoolAnswerQuestion(
        terms=agreed(hospital), joins=tuple(joins), answers=tuple(answers)
    )
    return hospital.ask(question)


def rounds(made: list[Hospital]) -> int:
    """How often everybody must be asked at most, until all have the sum."""
    return 1 + len(PoolTerms.of(read_plan(made[0].folder / "pool.toml")).sessions)


def carried(made: list[Hospital]) -> tuple[list[bytes], list[bytes]]:
    """A whole pool by an honest server: all joins and all answers."""
    joins = [joined(each) for each in made]
    answers: list[bytes] = []
    for _ in range(rounds(made)):
        told = [shown(each, joins, answers) for each in made]
        answers = [data for each in told for data in each.answers]
        if all(each.status == "pooled" for each in told):
            return joins, answers
    raise AssertionError(told)


def entries(hospital: Hospital) -> int:
    return len(hospital.account.entries)


@pytest.mark.parametrize("kind", KINDS)
def test_all_end_with_the_same_sum_as_over_a_shared_folder(tmp_path: Path, kind: Any) -> None:
    made = hospitals(tmp_path, 4, rows=40, cap=9.0)
    agree_on_pool(made, kind=kind, colluders=1)
    carried(made)
    assert len({each.pooled.read_bytes() for each in made}) == 1
    assert [entries(each) for each in made] == [1, 1, 1, 1]
    # The clinics' own commands over a folder that all share end with the very same file: what a
    # node answered is in its ledger.
    study, ring = read_study(made[0].folder / "study.toml"), made[0].pool.keyring
    pool = site.Pool(study, made[0].pool.plan, ring, str(tmp_path / "shared"))
    for _ in range(rounds(made)):
        for each in made:
            with Ledger(each.clinic.ledger) as ledger:
                found = site.take_part(
                    each.clinic.data, pool, ledger, each.clinic.key, home=each.folder
                )
    assert found.state == "done"
    assert Path(str(found.address)).read_bytes() == made[0].pooled.read_bytes()
    assert [entries(each) for each in made] == [1, 1, 1, 1]
    release = site.verify(made[0].pooled.read_bytes(), ring, study).release
    assert isinstance(release, PooledLearner if kind == "gradients" else PooledRelease)
    assert release.n == 160


def test_asked_again_a_node_gives_the_same_bytes_and_spends_nothing(three: list[Hospital]) -> None:
    joins = [joined(each) for each in three]
    assert {joined(three[0]) for _ in range(3)} == {joins[0]}
    assert entries(three[0]) == 0
    first = shown(three[0], joins, [])
    assert (first.status, len(first.answers)) == ("answered", 1)
    before = three[0].account
    assert {shown(three[0], joins, []).answers for _ in range(3)} == {first.answers}
    assert shown(three[0], [], []).answers == first.answers  # what was kept stays
    assert joined(three[0]) == joins[0]
    assert three[0].account == before
    assert len(before.entries) == 1
    answers = [*first.answers, *(shown(each, joins, []).answers[0] for each in three[1:])]
    last = shown(three[0], joins, answers)
    assert (last.status, last.answers) == ("pooled", first.answers)
    assert to_bytes(shown(three[0], [], [])) == to_bytes(last)
    assert three[0].account == before


def test_asked_by_several_at_once_a_node_joins_and_answers_once(three: list[Hospital]) -> None:
    with ThreadPoolExecutor(4) as askers:
        assert len(set(askers.map(joined, [three[0]] * 4))) == 1
        joins = [joined(each) for each in three]
        told = list(askers.map(lambda each: shown(each, joins, []), [three[0]] * 4))
    assert len({each.answers for each in told}) == 1
    assert entries(three[0]) == 1


def test_the_log_says_what_a_node_waits_for(three: list[Hospital]) -> None:
    joins = [joined(each) for each in three]
    assert shown(three[0], joins[:2], []).answers == ()
    line = three[0].log[-1]
    assert (line["asked"], line["answered"]) == ("pool-answer", "answered")
    assert "waiting for Hospital 2" in line["detail"]
    shown(three[0], joins, [b"nonsense"])
    assert "The ledger was charged. Not used: 1 of what was shown." in three[0].log[-1]["detail"]


def refusal(answer: Answer) -> tuple[str, str | None]:
    """Status and reason of an answer that holds nothing else."""
    assert (answer.join, answer.answers, answer.release) == (None, (), None)
    return answer.status, answer.reason


def test_without_a_plan_or_by_policy_a_node_takes_no_part(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3)
    assert refusal(asked_to_join(made[0])) == ("refused", "policy")
    agree_on_pool(made)
    made[0].policy(pool=False)
    assert refusal(asked_to_join(made[0])) == ("refused", "policy")
    assert refusal(shown(made[0], [joined(made[1])], [])) == ("refused", "policy")
    assert not (made[0].folder / "releases").exists()
    assert entries(made[0]) == 0
    made[1].policy(release=False, blend=False)
    assert joined(made[1])


@pytest.mark.parametrize("changed", [{"study": "0" * 64}, {"epsilon": 8.0}])
def test_other_terms_are_refused(three: list[Hospital], changed: dict[str, Any]) -> None:
    terms = agreed(three[0], **changed)
    reason = "study" if "study" in changed else "terms"
    for question in (
        PoolJoinQuestion(terms=terms),
        PoolAnswerQuestion(terms=terms, joins=(), answers=()),
    ):
        assert refusal(three[0].ask(question)) == ("refused", reason)
    assert not (three[0].folder / "releases").exists()


def test_plans_that_are_not_this_nodes(three: list[Hospital]) -> None:
    first = three[0]
    plan = first.folder / "pool.toml"
    good, study = plan.read_text(), first.pool.plan.study
    plan.write_text(good.replace("study = ", "purpose = "))
    assert refusal(asked_to_join(first)) == ("failed", "node")
    plan.write_text(good.replace(study, "0" * 64))
    assert refusal(asked_to_join(first)) == ("refused", "pool")
    assert "another study" in first.log[-1]["detail"]
    plan.write_text(good)
    ring = load_keyring(first.folder / "trust.toml")
    fewer = Keyring({name: key for name, key in ring if name != "Hospital 2"})
    (first.folder / "trust.toml").write_text(fewer.to_toml())
    assert refusal(asked_to_join(first)) == ("refused", "pool")
    assert "not in your keyring: Hospital 2" in first.log[-1]["detail"]
    (three[1].folder / "key.json").unlink()
    new_key().save(three[1].folder / "key.json")
    assert refusal(asked_to_join(three[1])) == ("refused", "pool")
    assert "not in the plan" in three[1].log[-1]["detail"]
    assert [entries(each) for each in three] == [0, 0, 0]


def test_a_budget_without_room_is_not_told(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, cap=1.0)
    agree_on_pool(made)
    assert to_bytes(asked_to_join(made[0])) == to_bytes(Answer(status="failed", reason="node"))
    assert not made[0].pool.status().parties[0].joined


def test_what_changed_after_joining_is_refused_unspent(three: list[Hospital]) -> None:
    joins = [joined(each) for each in three]
    reopened(three[0], three[0].clinic.data.read_text() + "120,50,m,yes,x\n")
    assert refusal(shown(three[0], joins, [])) == ("refused", "pool")
    assert "not those you joined with" in three[0].log[-1]["detail"]
    (secret,) = three[1].folder.glob("*.secret")
    secret.unlink()
    assert refusal(shown(three[1], joins, [])) == ("refused", "pool")
    assert "is gone" in three[1].log[-1]["detail"]
    assert entries(three[1]) == 0
    with Ledger(three[0].clinic.ledger) as ledger:
        assert all(ledger.account(name).entries == () for name in ledger.datasets())


def blend(hospital: Hospital, *releases: bytes) -> Answer:
    return hospital.ask(BlendQuestion(terms=agreed(hospital), releases=releases))


def test_the_sum_is_blended_without_the_own_part(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, rows=60, cap=20.0)
    agree_on_pool(made)
    carried(made)
    for each in made:
        assert to_bytes(blend(each)) == to_bytes(Answer(status="done"))
        (party,) = each.model.story.parties
        assert (party.name, party.rows) == ("pool of 3 organisations", 120)
        assert same(each.model, each.by_folder(each.pooled))
    # A release of rows that are in the sum already is set aside, as from a folder.
    release = made[1].ask(ReleaseQuestion(terms=agreed(made[1]))).release
    assert release is not None
    before = made[0].model
    assert blend(made[0], release).status == "done"
    assert len(made[0].model.story.parties) == 1
    assert made[0].model.components == before.components
    # A keyring that lacks a member takes the sum away; one that lacks oneself does not.
    ring = load_keyring(made[2].folder / "trust.toml")
    for missing, count in (("Hospital 2", 1), ("Hospital 1", 0)):
        kept = Keyring({name: key for name, key in ring if name != missing})
        (made[2].folder / "trust.toml").write_text(kept.to_toml())
        assert blend(made[2]).status == "done"
        assert len(made[2].model.story.parties) == count


def test_a_metric_about_a_pool(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    carried(made)
    made[0].policy(metric_epsilon=0.5)
    told = blend(made[0])
    assert (told.status, told.metric and told.metric.rows) == ("done", 24)
    assert entries(made[0]) == 2


def test_a_node_without_its_own_key_in_the_keyring_pools(three: list[Hospital]) -> None:
    for each in three:
        ring = load_keyring(each.folder / "trust.toml")
        others = Keyring({name: key for name, key in ring if name != each.clinic.name})
        (each.folder / "trust.toml").write_text(others.to_toml())
    _, answers = carried(three)
    assert len(answers) == 3
    assert all(len(list(each.folder.glob("releases/pool-*/pooled.release"))) == 1 for each in three)


def test_an_answer_holds_nothing_beside_what_it_says(three: list[Hospital]) -> None:
    joins = [joined(each) for each in three]
    told = msgspec.msgpack.decode(to_bytes(shown(three[0], joins, [])))
    assert told.keys() == {"status", "answers"}
    assert len(joins[0]) < 500
