"""A server that lies about a pool: the right refusal, never a wrong sum, every spend on record."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare import site
from sudare.pooling import NoiseShares, PoolTerms, make_join, read_board, session_steps
from sudare.releases import PooledLearner, PooledRelease
from sudare.study import read_every_row, read_study
from tests.federation.parties import Hospital, agree_on_pool, hospitals
from tests.federation.test_pools import (
    KINDS,
    blend,
    carried,
    entries,
    joined,
    refusal,
    rounds,
    shown,
)


def mixed(rng: random.Random, files: list[bytes]) -> list[bytes]:
    """Some of it, some of that twice, some of it broken, some of it nothing, in any order."""
    some = [data for data in files if rng.random() < 0.7]
    some += rng.choices(some, k=2) if some else []
    if some:
        broken = bytearray(rng.choice(some))
        broken[rng.randrange(len(broken))] ^= 1
        some += [bytes(broken), rng.choice(some)[:-7], rng.randbytes(40), b""]
    rng.shuffle(some)
    return some


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_shown_only_the_true_sum_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, seed: int
) -> None:
    drawn: list[Any] = []
    add_to = NoiseShares.add_to

    def recorded(self: NoiseShares, steps: list[int]) -> list[int]:
        noisy = add_to(self, steps)
        drawn.append(np.array(noisy) - np.array(steps))
        return noisy

    monkeypatch.setattr(NoiseShares, "add_to", recorded)
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made, kind=kind)
    rng = random.Random(seed)
    joins: list[bytes] = []
    answers: dict[bytes, None] = {}
    for turn in range(60):
        each = rng.choice(made)
        if turn < 3:
            joins.append(joined(made[turn]))
        files = joins, list(answers)
        told = shown(each, *(mixed(rng, some) for some in files))
        assert told.status in ("answered", "pooled")
        answers |= dict.fromkeys(told.answers)
        if turn > 10 and all(hospital.pooled.exists() for hospital in made):
            break
    for _ in range(rounds(made)):
        told_last = [shown(each, joins, list(answers)) for each in made]
        answers |= dict.fromkeys(data for each in told_last for data in each.answers)
    assert {each.status for each in told_last} == {"pooled"}
    assert len({each.pooled.read_bytes() for each in made}) == 1
    assert [entries(each) for each in made] == [1, 1, 1]
    sessions = made[0].pool.terms.sessions
    assert len(answers) == 3 * len(sessions)
    assert len(drawn) == 3 * len(sessions)  # nobody drew twice
    found = site.verify(made[0].pooled.read_bytes(), made[0].pool.keyring).release
    assert isinstance(found, PooledLearner if kind == "gradients" else PooledRelease)
    assert found.n == 72
    exact = sum(steps(each) for each in made)
    noise = sum(drawn[:3])  # nobody answers a second session before all have answered the first
    assert made[0].pool.board().sum(0).tolist() == (exact + noise).tolist()


def steps(hospital: Hospital) -> Any:
    """The first session's sums of its rows, as nobody else ever sees them."""
    study, pool = read_study(hospital.folder / "study.toml"), hospital.pool
    block = read_every_row(hospital.clinic.data, study)
    assert block.targets is not None
    signs = np.where(block.targets > 0, 1.0, -1.0)
    origin = np.zeros(pool.plan.contract.dimension)  # where gradients begin
    return session_steps(pool.terms.sessions[0], pool.plan.contract, block.rows, signs, origin)


def two_joins(liar: Hospital) -> tuple[bytes, bytes]:
    """What a member signs who means to deceive."""
    terms = PoolTerms.of(liar.pool.plan)
    one, other = (make_join(terms, liar.clinic.key, 24, "any").join for _ in range(2))
    return one, other


def test_two_rosters_for_two_halves_give_nobody_anything(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 5, cap=9.0)
    agree_on_pool(made)
    honest, liar = made[:4], made[4]
    joins = [joined(each) for each in honest]
    one, other = two_joins(liar)
    answers: list[bytes] = []
    for each, last in zip(honest, (one, one, other, other), strict=True):
        told = shown(each, [*joins, last], [])
        assert (told.status, len(told.answers)) == ("answered", 1)
        answers += told.answers
    assert [entries(each) for each in honest] == [1, 1, 1, 1]
    before = [each.account for each in honest]
    # Answers of the other half name another list of joins; their join, two by one member.
    told = shown(honest[0], [], answers[:2])
    assert (told.status, told.answers) == ("answered", (answers[0],))
    assert refusal(shown(honest[0], [other], answers)) == ("refused", "pool")
    assert "Hospital 4 signed two different joins" in honest[0].log[-1]["detail"]
    assert shown(honest[3], [], answers).status == "answered"
    assert refusal(shown(honest[3], [one], [])) == ("refused", "pool")
    for each in honest:
        shown(each, [*joins, one, other], answers)
        assert not each.pooled.exists()
    assert [each.account for each in honest] == before


def test_a_second_roster_is_not_answered(tmp_path: Path) -> None:
    """Its folder lost, a node is shown another list of joins than it answered."""
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    joins = [joined(each) for each in made[:2]]
    one, other = two_joins(made[2])
    (answer,) = shown(made[0], [*joins, one], []).answers
    for path in Path(made[0].pool.folder).iterdir():
        path.unlink()
    before = made[0].account
    assert refusal(shown(made[0], [*joins, other], [])) == ("refused", "pool")
    assert "another list of joins" in made[0].log[-1]["detail"]
    assert made[0].account == before
    # One that has not answered yet sees what the others answered, and spends nothing.
    assert refusal(shown(made[1], [*joins, other], [answer])) == ("refused", "pool")
    assert "Hospital 0 answered another list of joins" in made[1].log[-1]["detail"]
    assert entries(made[1]) == 0


def test_files_of_another_attempt_are_not_used(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, cap=20.0)
    agree_on_pool(made)
    old_joins, old_answers = carried(made)
    agree_on_pool(made, attempt=2)
    own = joined(made[0])
    assert own not in old_joins
    told = shown(made[0], [own, *old_joins], old_answers)
    assert (told.status, told.answers) == ("answered", ())
    assert "Not used: 6 of what was shown." in made[0].log[-1]["detail"]
    assert "waiting for Hospital 1, Hospital 2" in made[0].log[-1]["detail"]
    assert entries(made[0]) == 1
    carried(made)
    assert [entries(each) for each in made] == [2, 2, 2]  # an attempt costs again
    assert shown(made[0], old_joins, old_answers).status == "pooled"


def test_strangers_and_forgers_are_left_out(tmp_path: Path) -> None:
    made = hospitals(tmp_path / "known", 3, cap=9.0)
    agree_on_pool(made)
    strangers = hospitals(tmp_path / "strangers", 3, cap=9.0)
    agree_on_pool(strangers)
    terms = PoolTerms.of(made[0].pool.plan)
    # A stranger's join for our plan, theirs for their own, and ours in another's name.
    forged = make_join(terms, strangers[0].clinic.key, 24, "any").join
    joins = [joined(each) for each in made]
    told = shown(made[0], [joins[0], joins[1], forged, joined(strangers[1])], joins)
    assert (told.status, told.answers) == ("answered", ())
    assert "waiting for Hospital 2" in made[0].log[-1]["detail"]
    assert entries(made[0]) == 0
    kept = Path(made[0].pool.folder)
    assert sorted(path.read_bytes() for path in kept.iterdir()) == sorted(joins[:2])


def test_stale_joins_are_not_answered(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    plan = made[0].pool.plan.to_toml().replace("fresh_days = 7.0", "fresh_days = 1e-9")
    for each in made:
        (each.folder / "pool.toml").write_text(plan)
    joins = [joined(each) for each in made]
    assert refusal(shown(made[0], joins, [])) == ("refused", "pool")
    assert "are older than" in made[0].log[-1]["detail"]
    assert entries(made[0]) == 0


def test_answers_that_are_no_sums_are_refused_by_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    joins = [joined(each) for each in made]
    answers = [shown(each, joins, []).answers[0] for each in made[:2]]

    def huge(self: NoiseShares, steps: list[int]) -> list[int]:
        return [each + 2**62 for each in steps]

    with monkeypatch.context() as lying:
        lying.setattr(NoiseShares, "add_to", huge)
        answers += shown(made[2], joins, []).answers
    for each in made:
        assert refusal(shown(each, joins, answers)) == ("refused", "pool")
        assert "the sum is impossible" in each.log[-1]["detail"]
        assert not each.pooled.exists()


def test_a_finished_pool_is_never_taken_back(tmp_path: Path) -> None:
    made = hospitals(tmp_path, 3, cap=9.0)
    agree_on_pool(made)
    joins, answers = carried(made)
    before = made[0].pooled.read_bytes()
    one, _ = two_joins(made[2])
    assert refusal(shown(made[0], [*joins, one], answers)) == ("refused", "pool")
    assert made[0].pooled.read_bytes() == before
    board = read_board([(".join", one)], made[0].pool.terms, made[0].pool.keyring)
    assert board.joins  # the proof of what it did is kept
    assert blend(made[0]).status == "done"
    assert [party.name for party in made[0].model.story.parties] == ["pool of 3 organisations"]
