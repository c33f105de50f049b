"""The pooled release: the same file for everybody, believed for its signatures alone."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare import pooling
from sudare.exchange import Keyring
from sudare.foundations.privacy import account
from sudare.pooling import (
    PoolInvalid,
    open_pooled,
    read_board,
    trust_pooled,
    write_pooled,
)
from sudare.pooling._messages import open_join, sign_answer, sign_join
from sudare.releases import PooledRelease, is_pooled
from tests.pooling import pools
from tests.pooling.pools import STUDY, Pool

WHO = pools.parties(3)
POOL = Pool(WHO, pools.plan(WHO, kind="logistic", colluders=1, alone=2.0))
BOARD = POOL.run()
DATA = write_pooled(BOARD)


def changed(**fields: Any) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(DATA) | fields, order="sorted")


def in_plan(**fields: Any) -> bytes:
    return changed(plan=msgspec.json.decode(DATA)["plan"] | fields)


def refused(data: bytes, keyring: Keyring = POOL.keyring, study: str | None = None) -> str:
    with pytest.raises(PoolInvalid) as problem:
        open_pooled(data, keyring, study)
    return str(problem.value)


class TestFile:
    def test_the_same_bytes_whoever_writes_it(self) -> None:
        assert is_pooled(DATA)
        for order in (1, -1):
            files = list(POOL.files.items())[::order]
            board = read_board([*files, *files], POOL.terms, POOL.keyring)
            assert write_pooled(board) == DATA
        assert write_pooled(open_pooled(DATA, POOL.keyring)) == DATA

    def test_opens_to_the_same_sums(self) -> None:
        board = open_pooled(DATA, POOL.keyring, STUDY)
        for session in range(3):
            assert board.sum(session).tolist() == BOARD.sum(session).tolist()
        assert board.terms.plan == POOL.plan

    def test_not_before_all_have_answered(self) -> None:
        here = Pool(WHO, pools.plan(WHO))
        here.join()
        here.answer(0, *WHO[:2])
        with pytest.raises(PoolInvalid, match="Clinic C did not answer"):
            write_pooled(here.board())

    def test_what_begins_otherwise(self) -> None:
        assert not is_pooled(b"")
        assert not is_pooled(POOL.files["Clinic A.join"])


class TestRefusals:
    def test_another_study(self) -> None:
        assert "another study" in refused(DATA, study="cd" * 32)
        assert "another plan" in refused(in_plan(study="cd" * 32))

    def test_whom_one_does_not_trust(self) -> None:
        told = refused(DATA, pools.keyring(WHO[:2]))
        assert "'Clinic C' takes part with a key that is not in the keyring" in told

    def test_numbers_of_the_plan_that_nobody_signed(self) -> None:
        for fields in ({"epsilon": 0.5}, {"colluders": 0}, {"alone": None}, {"attempt": 2}):
            assert "belongs to another plan" in refused(in_plan(**fields))

    @pytest.mark.parametrize(
        "fields",
        [
            {"epsilon": 1e308},
            {"epsilon": -1.0},
            {"epsilon": None},
            {"epsilon": "NaN"},
            {"epsilon": 1e-308},
            {"delta": 2.0},
            {"delta": 5e-324},
            {"alone": 1e308},
            {"colluders": 10**30},
            {"most_rows": 10**30},
            {"fresh_days": 1e300},
            {"attempt": -1},
            {"unit": "x" * 1000},
            {"format": "sudare-pool/2"},
            {"kind": "gradient"},
            {"members": []},
            {"contract": {"features": 10**12, "row_norm": 3.0, "classes": ["no", "yes"]}},
            {"contract": {"features": 2, "row_norm": 1e308, "classes": ["no", "yes"]}},
            {"contract": {"features": -2, "row_norm": 3.0, "classes": ["no", "yes"]}},
            {"contract": {"features": 2000, "row_norm": 3.0, "target_bound": 1.0}},
        ],
        ids=str,
    )
    def test_absurd_plans(self, fields: dict[str, Any]) -> None:
        assert refused(in_plan(**fields))

    @pytest.fixture
    def nothing_is_computed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Work is bounded by one's own keyring: none is done for strangers' plans."""
        monkeypatch.setattr("sudare.pooling._pooled.PoolTerms", None)
        monkeypatch.setattr("sudare.pooling._pooled.read_board", None)

    @pytest.mark.usefixtures("nothing_is_computed")
    def test_a_million_members_are_not_looked_at(self) -> None:
        many = [{"name": f"m{i}", "key": f"{i:043d}"} for i in range(10**6)]
        assert "not a pooled release" in refused(in_plan(members=many))
        assert "'m0' takes part with a key" in refused(in_plan(members=many[:10_000]))

    @pytest.mark.usefixtures("nothing_is_computed")
    def test_nor_a_hundred_thousand_joins(self) -> None:
        one = POOL.files["Clinic A.join"].decode()
        assert "more joins or answers" in refused(changed(joins=[one] * 10**5))
        assert "more joins or answers" in refused(changed(answers=[[]] * 10**5))
        assert "more joins or answers" in refused(changed(answers=[[one] * 10**5]))

    @pytest.mark.usefixtures("nothing_is_computed")
    def test_nor_one_too_many(self) -> None:
        whole = msgspec.json.decode(DATA)
        joins, answers = whole["joins"], whole["answers"]
        assert "more joins or answers" in refused(changed(joins=[*joins, joins[0]]))
        assert "more joins or answers" in refused(changed(answers=[*answers, []]))
        doubled = [*answers[:-1], [*answers[-1], answers[-1][0]]]
        assert "more joins or answers" in refused(changed(answers=doubled))

    def test_too_large_to_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sudare.pooling._pooled.LARGEST_POOLED", 1 << 10)
        assert "larger than 0 MB" in refused(DATA)

    def test_joins_and_answers_left_out_doubled_or_moved(self) -> None:
        whole = msgspec.json.decode(DATA)
        joins, answers = whole["joins"], whole["answers"]
        assert "Clinic C did not join" in refused(changed(joins=joins[:2]))
        assert "did not join" in refused(changed(joins=[joins[0], joins[0], joins[1]]))
        assert "more joins" in refused(changed(joins=[*joins, joins[0]]))
        assert "not in the form" in refused(changed(joins=joins[::-1]))
        assert "did not answer" in refused(changed(answers=answers[:2]))
        assert "did not answer" in refused(changed(answers=[answers[0]] * 3))
        doubled = [answers[0][0], answers[0][0], answers[0][2]]
        assert "Clinic B did not answer" in refused(changed(answers=[doubled, *answers[1:]]))
        assert "more joins or answers" in refused(
            changed(answers=[[*answers[0], answers[0][0]], *answers[1:]])
        )
        assert "not in the form" in refused(changed(answers=[answers[1], answers[0], answers[2]]))
        assert "not a signed pool join" in refused(changed(joins=[*joins[:2], answers[0][2]]))

    def test_other_forms_of_the_same_contents(self) -> None:
        assert "not in the form" in refused(DATA + b"\n")
        assert "not in the form" in refused(DATA.replace(b'":', b'": '))
        assert "version not known" in refused(changed(format="sudare-pooled/2"))
        assert "not a pooled release" in refused(changed(more=1))

    def test_an_answer_from_elsewhere(self) -> None:
        """Rightly signed by a member, for another attempt; or with another vector, unsigned."""
        other = Pool(WHO, msgspec.structs.replace(POOL.plan, attempt=2))
        other.join()
        other.answer(0)
        answers = msgspec.json.decode(DATA)["answers"]
        forged = [other.files["Clinic A-0.answer"].decode(), *answers[0][1:]]
        assert "Clinic A signed belongs to another plan" in refused(
            changed(answers=[forged, *answers[1:]])
        )
        head, _, signature = answers[0][0].split(".")
        body = answers[0][1].split(".")[1]
        mixed = [f"{head}.{body}.{signature}", *answers[0][1:]]
        assert "signature is not 'Clinic A'" in refused(changed(answers=[mixed, *answers[1:]]))

    def test_two_answers_by_one_member_in_one_file(self) -> None:
        a = WHO[0]
        said = BOARD.answers[0][a.fingerprint].said
        second = sign_answer(msgspec.structs.replace(said, vector=bytes(80)), a.key).decode()
        answers = msgspec.json.decode(DATA)["answers"]
        both = [answers[0][0], second, answers[0][2]]
        assert "Clinic A signed two different answers" in refused(
            changed(answers=[both, *answers[1:]])
        )

    def test_another_join_than_the_one_that_was_answered(self) -> None:
        a = WHO[0]
        said = open_join(POOL.files["Clinic A.join"], POOL.terms, POOL.keyring).said
        other = sign_join(msgspec.structs.replace(said, rows=said.rows + 1), a.key).decode()
        joins = msgspec.json.decode(DATA)["joins"]
        told = refused(changed(joins=[other, *joins[1:]]))
        assert "Clinic A, Clinic B, Clinic C answered another list of joins" in told

    @settings(max_examples=150)
    @given(data=st.data())
    def test_anything_cut_or_garbled(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(0, len(DATA) - 1))
        stop = data.draw(st.integers(start, min(len(DATA), start + 40)) | st.just(len(DATA)))
        put = data.draw(st.binary(max_size=6) | st.sampled_from([b'"', b"0", b"\\ud800", b"]"]))
        if (garbled := DATA[:start] + put + DATA[stop:]) != DATA:
            refused(garbled)

    @settings(max_examples=100)
    @given(data=st.binary(max_size=100))
    def test_any_bytes(self, data: bytes) -> None:
        refused(data)
        refused(b'{"answers":' + data)


class TestTrusted:
    def test_release(self) -> None:
        trusted = trust_pooled(DATA, POOL.keyring, STUDY)
        release = trusted.release
        assert isinstance(release, PooledRelease)
        assert (release.n, release.sizes) == (63, (20, 21, 22))
        assert release.members == tuple(each.fingerprint for each in WHO)
        assert release.cross_vector.tolist() == BOARD.moments.cross.tolist()
        assert release.gram_matrix.tolist() == BOARD.moments.gram.tolist()
        assert release.squares is None
        assert release.noise_std == POOL.terms.noise_std
        assert (release.delta, release.honest) == (1e-6, POOL.terms.curve)
        assert trusted.signer == "pool of 3 organisations"

    def test_the_certificate_is_computed(self) -> None:
        """Nothing in it is anyone's claim: plan, joins and answers are all that the file holds."""
        trusted = trust_pooled(DATA, POOL.keyring, STUDY)
        told = trusted.signed.certificate
        assert (told.study, told.epsilon, told.delta) == (STUDY, 1.0, 1e-6)
        assert account([trusted.release.event], 1e-6).epsilon() <= told.epsilon
        assert told.receipt == BOARD.roster.digest
        assert "at least 2 of the 3 organisations" in told.sentence
        numbers = told.parameters
        assert (numbers["organisations"], numbers["colluders"], numbers["alone"]) == (3, 1, 2.0)
        assert numbers["numbers"] == 10 + 9 + 9
        for honest in (1, 2, 3):
            assert numbers[f"epsilon if {honest} honest"] == POOL.terms.epsilon(honest)
        assert told == trust_pooled(DATA, POOL.keyring).signed.certificate
        assert set(msgspec.json.decode(DATA)) == {"answers", "format", "joins", "plan"}

    def test_numbers_have_their_squares(self) -> None:
        who = pools.parties(3, pools.NUMBERS)
        here = Pool(who, pools.plan(who, pools.NUMBERS))
        data = write_pooled(here.run())
        release = trust_pooled(data, here.keyring).release
        assert isinstance(release, PooledRelease)
        assert release.squares == here.board().moments.squares
        assert pooling.parameters(here.terms)["kind"] == "moments"


def test_a_simulated_release_is_the_same_but_for_its_mark() -> None:
    found = pooling.simulated_release(BOARD.terms, BOARD.sum(0), (20, 21, 22))
    assert found.simulated
    assert msgspec.structs.replace(found, simulated=False) == pooling.pooled_release(BOARD)
