"""What a lying folder and hostile members can do to a sum: hinder it, and nothing else.

Masked vectors of attempts that are not complete must look uniform; each is refused with probability
1e-12 at most although it is (`tests/statistical.py`).
"""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest
from joserfc import jws

from sudare import pooling
from sudare.foundations.randomness import seeded
from sudare.pooling import Board, PoolInvalid, make_join, read_board
from sudare.pooling._masks import add_up
from sudare.pooling._messages import JOIN, sign_answer, sign_join
from sudare.releases import Contract
from tests.pooling import pools
from tests.pooling.pools import Party, Pool, is_uniform

WIDE = Contract(features=120, row_norm=3.0, classes=(0, 1))


def pool(many: int = 3, contract: Contract = pools.CLASSES, **changed: Any) -> Pool:
    who = pools.parties(many, contract)
    return Pool(who, pools.plan(who, contract, **changed))


def resigned(here: Pool, each: Party, number: int, **changed: Any) -> bytes:
    """A member's answer to this session with something changed, rightly signed."""
    said = here.board().answers[number][each.fingerprint].said
    return sign_answer(msgspec.structs.replace(said, **changed), each.key)


class TestWaiting:
    def test_names_whom_it_waits_for(self) -> None:
        here = pool(kind="logistic")
        a, b, c = here.members
        assert here.board().missing_joins == ("Clinic A", "Clinic B", "Clinic C")
        here.join(a, c)
        board = here.board()
        assert board.missing_joins == ("Clinic B",)
        with pytest.raises(PoolInvalid, match="Not everybody has joined: Clinic B did not"):
            _ = board.roster
        here.join(b)
        assert here.board().roster.rows == 63
        here.answer(0, b)
        board = here.board()
        assert (board.session, board.missing_answers(0)) == (0, ("Clinic A", "Clinic C"))
        for asked in (lambda: board.sum(0), lambda: board.moments, lambda: board.theta(1)):
            with pytest.raises(PoolInvalid, match="Clinic A, Clinic C did not answer"):
                asked()
        here.answer(0, a, c)
        assert here.board().session == 1
        here.answer(1)
        here.answer(2)
        assert here.board().session is None

    def test_a_party_that_vanishes(self) -> None:
        here = pool()
        here.join()
        here.answer(0, *here.members[:2])
        with pytest.raises(PoolInvalid, match="Clinic C did not answer"):
            pooling.write_pooled(here.board())

    def test_files_in_any_order_and_any_number_of_times(self) -> None:
        here = pool(kind="logistic")
        board = here.run()
        expected = [board.sum(number).tolist() for number in range(3)]
        for seed in range(5):
            files = [*here.files.items(), *here.files.items()]
            shuffled = [files[i] for i in seeded(seed).permutation(len(files))]
            again = read_board(shuffled, here.terms, here.keyring)
            assert [again.sum(number).tolist() for number in range(3)] == expected

    def test_stale_joins(self) -> None:
        here = pool(fresh_days=2.0)
        here.join()
        now = datetime.now(UTC)
        assert here.board().stale_joins(now) == ()
        assert here.board().stale_joins(now + timedelta(days=1.9)) == ()
        late = here.board().stale_joins(now + timedelta(days=2.1))
        assert late == ("Clinic A", "Clinic B", "Clinic C")
        assert here.board().stale_joins(now - timedelta(minutes=9)) == ()
        assert len(here.board().stale_joins(now - timedelta(minutes=12))) == 3

    @pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00"])
    def test_joins_from_the_ends_of_time(self, moment: str) -> None:
        here = pool(fresh_days=3660.0)
        here.join()
        a = here.members[0]
        said = here.board().joins[a.fingerprint].said
        here.files["Clinic A.join"] = sign_join(msgspec.structs.replace(said, moment=moment), a.key)
        assert here.board().stale_joins(datetime.now(UTC)) == ("Clinic A",)


class TestLyingFolder:
    def test_what_cannot_be_used_is_told_and_stops_nothing(self) -> None:
        here = pool()
        expected = here.run().sum(0).tolist()
        cut = here.files["Clinic A.join"][:-9]
        here.files |= {"x.join": b"?", "readme.txt": b"hello", "cut.join": cut}
        here.files["y.answer"] = here.files["Clinic A.join"]
        board = here.board()
        assert board.sum(0).tolist() == expected
        assert [told.partition(":")[0] for told in board.problems] == [
            "x.join",
            "readme.txt",
            "cut.join",
            "y.answer",
        ]
        assert "'Clinic A'" in board.problems[2]

    def test_joins_and_answers_of_another_attempt(self) -> None:
        first = pool()
        first.run()
        second = Pool(first.members, msgspec.structs.replace(first.plan, attempt=2))
        second.join(*second.members[:2])
        second.files["replayed.join"] = first.files["Clinic C.join"]
        second.files["replayed.answer"] = first.files["Clinic C-0.answer"]
        board = second.board()
        assert board.missing_joins == ("Clinic C",)
        assert len(board.problems) == 2
        assert all("Clinic C signed belongs to another plan" in told for told in board.problems)

    def test_an_answer_under_the_name_of_another_session(self) -> None:
        here = pool(kind="logistic")
        here.join()
        here.answer(0)
        here.files["Clinic A-1.answer"] = here.files["Clinic A-0.answer"]
        board = here.board()
        assert board.missing_answers(1) == ("Clinic A", "Clinic B", "Clinic C")
        assert board.session == 1

    def test_an_attempt_that_is_not_complete_shows_noise(self) -> None:
        """Any of the answers, and any sum of them, while one is missing."""
        here = pool(5, WIDE)
        here.join()
        here.answer(0, *here.members[:4])
        answers = [each.said.words for each in here.board().answers[0].values()]
        for size in (1, 2, 3, 4):
            for some in itertools.combinations(answers, size):
                assert is_uniform(add_up(some).view(np.uint64))
        here.answer(0, here.members[4])
        assert not is_uniform(here.board().sum(0).view(np.uint64))


class TestHostileMembers:
    def test_two_joins_of_one_key(self) -> None:
        here = pool()
        here.join()
        b = here.members[1]
        here.files["again.join"] = make_join(here.terms, b.key, 21, "x").join
        with pytest.raises(PoolInvalid, match="Clinic B signed two different joins"):
            here.board()

    def test_two_answers_of_one_key(self) -> None:
        here = pool()
        here.run()
        b = here.members[1]
        here.files["again.answer"] = resigned(here, b, 0, vector=bytes(80))
        with pytest.raises(PoolInvalid, match="Clinic B signed two different answers"):
            here.board()

    def test_one_join_signed_in_two_ways(self) -> None:
        """All who see both keep the same one, in whatever order they came."""
        here = pool()
        here.join()
        a, data = here.members[0], here.files["Clinic A.join"]
        payload = msgspec.msgpack.encode(here.board().joins[a.fingerprint].said)
        header = {"kid": a.fingerprint, "typ": JOIN, "alg": "EdDSA"}
        with pytest.warns(match="EdDSA"):
            other = jws.serialize_compact(header, payload, a.key.jwk, ["EdDSA"]).encode()
        assert other != data
        kept = {
            read_board([("1.join", one), ("2.join", two)], here.terms, here.keyring)
            .joins[a.fingerprint]
            .data
            for one, two in ((data, other), (other, data))
        }
        assert len(kept) == 1

    def two_rosters(self) -> tuple[Pool, list[Board]]:
        """B makes two joins; the folder shows one to A and the other to C and D."""
        here = pool(4, WIDE)
        here.join()
        b = here.members[1]
        first, second = here.secrets[b.name], make_join(here.terms, b.key, len(b.table), b.name)
        joins, boards = dict(here.files), []
        for secret, shown in ((first, "A"), (second, "CD")):
            files = joins | {f"{b.name}.join": secret.join}
            board = read_board(files.items(), here.terms, here.keyring)
            boards.append(board)
            for each in here.members:
                if each.name[-1] in shown + "B":
                    kept = secret if each is b else here.secrets[each.name]
                    pooling.check_answer(board, kept, each.fingerprint, len(each.table), each.name)
                    noisy = pooling.noisy_sums(board, 0, each.table, each.targets, None)
                    data = pooling.masked_answer(board, 0, noisy, None, kept, each.key)
                    here.files[f"{each.name}-{shown}.answer"] = data
        del here.files[f"{b.name}.join"]
        here.secrets |= {"first": first, "second": second}
        return here, boards

    def test_two_rosters_shown_to_two_halves(self) -> None:
        here, _ = self.two_rosters()
        joins = {"1.join": here.secrets["first"].join, "2.join": here.secrets["second"].join}
        with pytest.raises(PoolInvalid, match="Clinic B signed two different joins"):
            read_board((joins | here.files).items(), here.terms, here.keyring)
        for shown, join, strange in (
            ("A", "first", "Clinic C, Clinic D"),
            ("CD", "second", "Clinic A"),
        ):
            files = here.files | {"b.join": here.secrets[join].join}
            del files[f"Clinic B-{'CD' if shown == 'A' else 'A'}.answer"]
            board = read_board(files.items(), here.terms, here.keyring)
            with pytest.raises(PoolInvalid, match=f"^{strange} answered another list of joins"):
                board.sum(0)
            with pytest.raises(PoolInvalid, match=f"^{strange} answered another list of joins"):
                pooling.write_pooled(board)

    def test_two_rosters_show_noise_whatever_is_added_up(self) -> None:
        """Even to B, who takes its own two masked vectors into any sum it likes."""
        here, _ = self.two_rosters()
        opened = [
            pooling.open_answer(data, here.terms, here.keyring).said.words
            for name, data in here.files.items()
            if name.endswith(".answer")
        ]
        for size in range(1, len(opened) + 1):
            for some in itertools.combinations(opened, size):
                assert is_uniform(add_up(some).view(np.uint64))

    def test_a_later_session_under_another_roster(self) -> None:
        here = pool(kind="logistic")
        here.join()
        here.answer(0)
        a, b = here.members[:2]
        odd: dict[str, Any] = {"roster": "0" * 64, "theta": (0.0,) * 3, "vector": bytes(72)}
        here.files["odd.answer"] = resigned(here, b, 0, session=1, **odd)
        board = here.board()
        for refused in (
            lambda: board.sum(0),
            lambda: board.theta(1),
            lambda: pooling.check_answer(
                board, here.secrets[a.name], a.fingerprint, len(a.table), a.name
            ),
        ):
            with pytest.raises(PoolInvalid, match=r"^Clinic B answered another list of joins"):
                refused()

    def test_coefficients_of_its_own(self) -> None:
        here = pool(kind="logistic")
        here.join()
        here.answer(0)
        b = here.members[1]
        theta = tuple((here.theta(1) + np.array([1e-4, 0.0, 0.0])).tolist())
        said = resigned(here, b, 0, session=1, theta=theta, vector=bytes(72))
        here.files["odd.answer"] = said
        with pytest.raises(PoolInvalid, match="Clinic B evaluated session 1 at other coefficients"):
            here.board().theta(1)

    def test_coefficients_that_differ_in_the_last_digit(self) -> None:
        """The first to answer decides; who then says otherwise spoils the sum."""
        here = pool(kind="logistic")
        here.join()
        here.answer(0)
        own = here.theta(1)
        here.answer(1, here.members[0])
        other = own + np.array([2.0**-21, 0.0, 0.0])
        said = resigned(here, here.members[0], 1, theta=tuple(other.tolist()))
        here.files["Clinic A-1.answer"] = said
        assert here.theta(1).tolist() == other.tolist()
        here.answer(1, *here.members[1:])
        here.board().sum(1)
        here.files["Clinic A-1.answer"] = resigned(
            here, here.members[0], 1, theta=tuple(own.tolist())
        )
        with pytest.raises(PoolInvalid, match="not evaluated at the same coefficients"):
            here.board().sum(1)

    @pytest.mark.parametrize("seed", range(4))
    def test_sums_that_no_rows_can_have_lead_to_coefficients_all_the_same(self, seed: int) -> None:
        """Whatever stands in an answer, sums and θ are numbers; screening is for who reads them."""
        here = pool(kind="logistic")
        here.join()
        here.answer(0)
        b = here.members[1]
        for session in (0, 1):
            words = seeded(seed).integers(0, 2**64, here.terms.sessions[session].entries, np.uint64)
            here.files[f"{b.name}-{session}.answer"] = resigned(
                here, b, session, vector=words.astype("<u8").tobytes()
            )
            assert np.linalg.norm(here.theta(session + 1)) <= 16
            here.answer(session + 1)
        assert here.board().session is None
