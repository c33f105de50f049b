"""A pool over files: run again and again until it is done, charged once, the same for everybody."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare import site
from sudare.exchange import ReleaseInvalid, get_all, put
from sudare.foundations.checks import InvalidInput
from sudare.ledger import BudgetExceeded, Ledger
from sudare.pooling import NoiseShares, PoolInvalid
from sudare.pooling._plan import SPLITS
from sudare.releases import PooledLearner, PooledRelease
from sudare.study import read_table
from tests.site.clinics import classes, numbers
from tests.site.desks import Desk, desks, finish, next_attempt


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.mark.parametrize(
    ("study", "kind", "sessions"),
    [(classes(epsilon=2.0), "moments", 1), (numbers(), "moments", 1), (classes(), "logistic", 3)],
    ids=["classes", "numbers", "logistic"],
)
def test_everybody_gets_the_same_sum_of_all_rows_and_all_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: Any, kind: Any, sessions: int
) -> None:
    shares: list[Any] = []
    add_to = NoiseShares.add_to

    def recorded(self: NoiseShares, steps: list[int]) -> list[int]:
        noisy = add_to(self, steps)
        shares.append(np.array(noisy) - np.array(steps))
        return noisy

    monkeypatch.setattr(NoiseShares, "add_to", recorded)
    made = desks(tmp_path, study=study, kind=kind, colluders=1)
    first = [desk.run() for desk in made]
    assert [status.state for status in first] == ["joining", "joining", "answering"]
    assert [status.charged for status in first] == [False, False, True]
    assert first[0].sentence.startswith("1 of 3 joined: waiting for Clinic B, Clinic C (last")
    last = finish(made)
    addresses = {status.address for status in last}
    assert len(addresses) == 1
    (data,) = [data for _, data in get_all(addresses.pop() or "")]
    found = site.verify(data, made[0].pool.keyring, study).release
    assert isinstance(found, PooledRelease)
    assert len(shares) == 3 * sessions
    blocks = [read_table(desk.data, study) for desk in made]
    contract = study.contract
    rows = [contract.rows(block.rows) / contract.full_norm for block in blocks]
    cross = sum(block.targets @ each for block, each in zip(blocks, rows, strict=True))
    shares_of = made[0].pool.terms.sessions[0].shares()
    grid = 2.0**shares_of.grid_exponent
    noise = grid * np.sum(shares[:3], axis=0)  # the first session is answered first by all
    p = contract.dimension
    # Each party rounds once.
    assert np.abs(found.cross_vector - cross - noise[:p]).max() <= 1.5 * grid * (1 + 1e-6)
    gram = sum(each.T @ each for each in rows)
    upper = np.triu_indices(p, 1)
    off = found.gram_matrix[upper] - gram[upper] - noise[p : p + len(upper[0])]
    assert np.abs(off).max() <= 1.5 * grid * (1 + 1e-6)
    assert found.n == sum(map(len, rows))
    assert [desk.spent() for desk in made] == [1, 1, 1]
    # Asked again, nothing changes and nothing is charged.
    before = contents(made[0].pool.folder)
    assert finish(made)[0].address == last[0].address
    assert contents(made[0].pool.folder) == before


@pytest.mark.parametrize(
    ("study", "sessions"),
    [(classes(epsilon=2.0), 30), (numbers(), 4)],
    ids=["classes", "numbers"],
)
def test_gradients_walk_through_files_to_one_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: Any, sessions: int
) -> None:
    if sessions != 30:  # all of them once is enough
        monkeypatch.setitem(SPLITS, "gradients", (1 / sessions,) * sessions)
    made = desks(tmp_path, study=study, kind="gradients", colluders=1)
    runs = [desk.run() for desk in made]
    assert [status.charged for status in runs] == [False, False, True]
    last, pool = finish(made)[0], made[0].pool
    assert [len(party.answered) for party in last.parties] == [sessions] * 3
    assert [desk.spent() for desk in made] == [1, 1, 1]
    board = pool.board()
    (data,) = [data for _, data in get_all(last.address or "")]
    found = site.verify(data, pool.keyring, study).release
    assert isinstance(found, PooledLearner)
    assert found.theta == pytest.approx(board.descent.result(board.visited), rel=1e-12)
    checked = site.collect([pool.place], pool.keyring, study)
    own = made[0].key.public.fingerprint
    model = site.blend(made[0].data, study, checked, party="Clinic A", key=own)
    ((party,), others) = (model.story.parties, found.n - found.sizes[found.members.index(own)])
    assert (party.rows, party.honest) == (others, found.honest)
    with pytest.raises(InvalidInput, match="coefficients"):
        site.describe_releases(checked, study)


def test_a_pool_over_any_address(tmp_path: Path) -> None:
    made = desks(tmp_path, place="memory://pools/here")
    status = finish(made)[0]
    assert status.address is not None
    assert status.address.startswith("memory://pools/here/pool-")
    ((_, data),) = get_all(status.address)
    assert site.verify(data, made[0].pool.keyring).release.n == 40 + 41 + 42


def test_what_would_fail_later_fails_before_joining(tmp_path: Path) -> None:
    poor, *_ = desks(tmp_path / "poor", cap=0.5)
    with pytest.raises(BudgetExceeded):
        poor.run()
    a, *_ = desks(tmp_path / "rich")
    a.data.write_text(a.data.read_text().replace("yes", "perhaps", 1))
    with pytest.raises(Exception, match="no budget yet"):
        a.run()
    b, *_ = desks(tmp_path / "wrong")
    text = b.data.read_text().replace("yes", "perhaps", 1)
    b.data.write_text(text)
    with Ledger(b.folder / "ledger.db") as ledger:
        ledger.open("these", ledger.fingerprint([text.encode()]), 4.0, 1e-6)
    with pytest.raises(InvalidInput, match="ill"):
        b.run()
    for desk in (poor, a, b):
        assert not Path(desk.pool.place).exists()
        assert not list(desk.folder.glob("*.secret"))


def test_a_folder_that_loses_files_gets_the_same_ones_again(tmp_path: Path) -> None:
    made = desks(tmp_path)
    a = made[0]
    a.run()
    (join,) = Path(a.pool.folder).glob("*.join")
    before = join.read_bytes()
    join.unlink()
    a.run()
    assert join.read_bytes() == before
    for desk in made[1:]:
        desk.run()
    a.run()
    (answer,) = Path(a.pool.folder).glob("Clinic-A*.answer")
    before = answer.read_bytes()
    answer.unlink()
    assert not a.run().charged
    assert answer.read_bytes() == before
    finish(made)
    pooled = Path(a.pool.folder, "pooled.release")
    whole = pooled.read_bytes()
    pooled.write_bytes(whole[:-100])  # somebody wrote over it
    with pytest.raises(ReleaseInvalid):
        site.verify(pooled.read_bytes(), a.pool.keyring)
    a.run()
    assert pooled.read_bytes() == whole


def test_junk_in_the_folder_is_named_and_stops_nothing(tmp_path: Path) -> None:
    made = desks(tmp_path)
    folder = made[0].pool.folder
    for name, data in [("x.join", b""), ("y.answer", b"\xff" * 50_000), ("z.join", b"a.b.c")]:
        put(folder, name, data)
    status = finish(made)[0]
    assert len(status.problems) == 3
    assert all(name in "".join(status.problems) for name in ("x.join", "y.answer", "z.join"))


def test_rows_or_ledger_changed_after_joining_are_refused_unspent(tmp_path: Path) -> None:
    made = desks(tmp_path)
    a, b, c = made
    a.run()
    text = a.data.read_text() + a.data.read_text().splitlines()[1] + "\n"
    a.data.write_text(text)
    with Ledger(a.folder / "ledger.db") as ledger:
        ledger.open("more", ledger.fingerprint([text.encode()]), 4.0, 1e-6)
    b.run()
    c.run()
    with pytest.raises(PoolInvalid, match="not those you joined with"):
        a.run()
    with Ledger(a.folder / "ledger.db") as ledger:
        assert not ledger.account("more").entries
    assert a.spent() == 0


def test_a_lost_or_copied_secret(tmp_path: Path) -> None:
    made = desks(tmp_path)
    a, b, c = made
    a.run()
    # On another machine, with a ledger of its own.
    other = a.copy(tmp_path / "laptop")
    for file in other.folder.glob("ledger.db*"):
        file.unlink()
    with Ledger(other.folder / "ledger.db") as ledger:
        ledger.open("people", ledger.fingerprint([a.data.read_bytes()]), 4.0, 1e-6)
    b.run()
    c.run()
    with pytest.raises(PoolInvalid, match="not those you joined with"):
        other.run()
    assert other.spent() == 0
    kept = a.secret.read_bytes()
    a.secret.unlink()
    with pytest.raises(PoolInvalid, match="is gone or on another machine"):
        a.run()
    assert a.spent() == 0
    assert (other.secret.stat().st_mode & 0o777) == 0o600
    (a.folder / other.secret.name).write_bytes(kept)
    finish(made)
    # Once all is answered the key is destroyed, and is not needed any more.
    assert b'"private":""' in a.secret.read_bytes()
    a.secret.unlink()
    assert a.run().state == "done"


def test_two_lists_of_joins_are_never_answered_in_one_attempt(tmp_path: Path) -> None:
    made = desks(tmp_path)
    a, b, c = made
    for desk in (a, b, c):
        desk.run()
    a.run()
    assert a.spent() == 1
    # B begins anew on another machine, and the folder shows A that join instead.
    (old,) = Path(a.pool.folder).glob("Clinic-B*.join")
    again = desks_like(b, tmp_path / "b2")
    old.unlink()
    for answer in Path(a.pool.folder).glob("*.answer"):
        answer.unlink()
    again.run()
    with pytest.raises(PoolInvalid, match="answered another list of joins"):
        a.run()
    assert a.spent() == 1


def desks_like(desk: Desk, folder: Path) -> Desk:
    """The same key and rows, and no memory."""
    made = desk.copy(folder)
    for file in [*folder.glob("ledger.db*"), *folder.glob("*.secret")]:
        file.unlink()
    with Ledger(folder / "ledger.db") as ledger:
        ledger.open("people", ledger.fingerprint([desk.data.read_bytes()]), 4.0, 1e-6)
    return made


def test_a_party_that_signed_two_joins_is_named(tmp_path: Path) -> None:
    made = desks(tmp_path)
    a, b, _ = made
    b.run()
    (first,) = Path(b.pool.folder).glob("Clinic-B*.join")
    data = first.read_bytes()
    first.unlink()
    desks_like(b, tmp_path / "b2").run()
    put(b.pool.folder, "hidden.join", data)
    with pytest.raises(PoolInvalid, match="Clinic B signed two different joins"):
        a.run()
    assert a.spent() == 0


def test_whoever_vanishes_ends_the_attempt_and_a_new_one_costs_again(tmp_path: Path) -> None:
    made = desks(tmp_path, 4, cap=4.0)
    for desk in made:
        desk.run()
    for desk in made[:3]:
        desk.run()
    # The last to join answered at once; the one before it has gone.
    (answer,) = Path(made[0].pool.folder).glob("Clinic-C*.answer")
    answer.unlink()
    status = made[0].run()
    assert status.waiting == ("Clinic C",)
    left = next_attempt(made, without=("Clinic C",), attempt=2)
    left = [desk for desk in left if desk.name != "Clinic C"]
    finish(left)
    assert [desk.spent() for desk in left] == [2, 2, 2]


def test_stale_joins_are_not_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime, timedelta

    made = desks(tmp_path)
    for desk in made[:2]:
        desk.run()

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(UTC) + timedelta(days=8)

    with monkeypatch.context() as later:
        later.setattr("sudare.site._pooling.datetime", Later)
        with pytest.raises(PoolInvalid, match=r"older than 7 days.*Nothing was spent"):
            made[2].run()
    assert made[2].spent() == 0
    # Whoever has answered is not gone: the last one finishes, however late it comes.
    for desk in (made[2], made[0]):
        desk.run()
    monkeypatch.setattr("sudare.site._pooling.datetime", Later)
    assert made[1].run().state == "done"


def test_an_impossible_sum_is_refused_by_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = desks(tmp_path)
    for desk in made:
        desk.run()
    with monkeypatch.context() as patch:
        patch.setattr(
            NoiseShares, "add_to", lambda self, steps: [step + (1 << 50) for step in steps]
        )
        made[0].run()  # one of them is hostile
    with pytest.raises(PoolInvalid, match=r"impossible.*Nobody can tell who"):
        made[1].run()


def test_an_unattended_run_takes_every_row(tmp_path: Path) -> None:
    made = desks(tmp_path)
    a = made[0]
    text = a.data.read_text().replace("yes", "perhaps", 1)
    a.data.write_text(text)
    with Ledger(a.folder / "ledger.db") as ledger:
        ledger.open("these", ledger.fingerprint([text.encode()]), 4.0, 1e-6)
        site.take_part_unattended(a.data, a.pool, ledger, a.key, home=a.folder)
    assert a.pool.status().parties[0].rows == 40


def test_nobody_s_rows_count_twice(tmp_path: Path) -> None:
    made = desks(tmp_path, 4, cap=20.0)
    a, pool = made[0], made[0].pool
    own = a.key.public.fingerprint
    finish(made)
    smaller = next_attempt(made, without=("Clinic D",), attempt=2)[:3]
    finish(smaller)
    for desk in made[1:]:
        with Ledger(desk.folder / "ledger.db") as ledger:
            settings: Any = {"party": desk.name, "place": pool.place}
            site.publish(desk.data, pool.study, ledger, desk.key, **settings)
    checked = site.collect([pool.place], pool.keyring, pool.study)
    assert sum(each.trusted is not None for each in checked) == 2 + 3
    model = site.blend(a.data, pool.study, checked, party="Clinic A", key=own)
    assert [p.rows for p in model.story.parties] == [41 + 42 + 43]
    reasons = [refusal.reason for refusal in model.story.refusals]
    assert reasons == ["its rows are in a pooled release that is used"] * 4


def test_the_own_part_is_taken_off_before_blending(tmp_path: Path) -> None:
    made = desks(tmp_path, rows=60, epsilon=20.0, cap=20.0)
    a, pool = made[0], made[0].pool
    status = finish(made)[0]
    checked = site.collect([status.address or ""], pool.keyring, pool.study)
    own = a.key.public.fingerprint
    model = site.blend(a.data, pool.study, checked, party="Clinic A", key=own)
    assert [(p.name, p.rows) for p in model.story.parties] == [("pool of 3 organisations", 61 + 62)]
    stranger = site.blend(a.data, pool.study, checked, party="Clinic Z", key="x" * 43)
    assert [p.rows for p in stranger.story.parties] == [60 + 61 + 62]
    unknown = site.blend(a.data, pool.study, checked, party="Clinic A")
    assert unknown.story.parties == ()
    assert "signing key is needed" in unknown.story.refusals[0].reason
    fewer = a.folder / "fewer.csv"
    fewer.write_text("\n".join(a.data.read_text().splitlines()[:-5]) + "\n")
    other = site.blend(fewer, pool.study, checked, party="Clinic A", key=own)
    assert "the 60 rows that went into the pool" in other.story.refusals[0].reason
    unattended = site.blend_unattended(a.data, pool.study, checked, party="Clinic A", key=own)
    assert unattended.components == model.components
