"""One organisation's part: what is refused before anything is spent, and what it never tells."""

import traceback
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from sudare import pooling
from sudare.foundations.checks import InvalidInput
from sudare.pooling import PoolInvalid, Secret, check_answer, make_join, read_secret
from sudare.pooling._messages import sign_join
from tests.pooling import pools
from tests.pooling.pools import Pool


def pool(many: int = 3, **changed: Any) -> Pool:
    who = pools.parties(many)
    return Pool(who, pools.plan(who, **changed))


def checked(here: Pool, secret: Secret | None = None, **changed: Any) -> None:
    """As Clinic A, about to answer."""
    a = here.members[0]
    asked: dict[str, Any] = {
        "own": a.fingerprint,
        "rows": len(a.table),
        "dataset": a.name,
    } | changed
    check_answer(here.board(), secret or here.secrets[a.name], **asked)


class TestCheckAnswer:
    def test_all_is_well(self) -> None:
        here = pool()
        here.join()
        checked(here)
        here.answer(0)
        checked(here)

    def test_not_all_have_joined(self) -> None:
        here = pool()
        here.join(here.members[0])
        with pytest.raises(PoolInvalid, match="Clinic B, Clinic C did not"):
            checked(here)

    @pytest.mark.parametrize(
        "changed", [{"rows": 19}, {"rows": 21}, {"dataset": "another"}], ids=str
    )
    def test_other_rows_than_those_it_joined_with(self, changed: dict[str, Any]) -> None:
        here = pool()
        here.join()
        with pytest.raises(PoolInvalid, match=r"not those you joined with.*Nothing was spent"):
            checked(here, **changed)

    def test_the_secret_of_another_plan(self) -> None:
        here = pool()
        here.join()
        other = Pool(here.members, msgspec.structs.replace(here.plan, attempt=2))
        other.join()
        with pytest.raises(PoolInvalid, match=r"belongs to another plan\. Nothing was spent"):
            checked(here, other.secrets["Clinic A"])

    def test_a_secret_that_was_not_made_for_the_join_there(self) -> None:
        """Copied from another machine, replaced, of another member, or half of each."""
        here = pool()
        here.join()
        a = here.members[0]
        own, other = here.secrets["Clinic A"], make_join(here.terms, a.key, 20, a.name)
        replace = msgspec.structs.replace
        for wrong in (
            other,
            replace(here.secrets["Clinic B"], rows=20, dataset=a.name),
            replace(own, private=other.private),
            replace(own, join=other.join),
            replace(own, private=b""),
        ):
            with pytest.raises(PoolInvalid, match=r"was not made here.*Nothing was spent"):
                checked(here, wrong)

    def test_a_stranger(self) -> None:
        here = pool()
        here.join()
        with pytest.raises(PoolInvalid, match="was not made here"):
            checked(here, own="a" * 43)

    def test_a_key_that_makes_no_secret_is_no_join(self) -> None:
        """All zeros: everybody would know the masks. Nobody is asked to pay for finding out."""
        here = pool()
        here.join()
        b = here.members[1]
        said = here.board().joins[b.fingerprint].said
        here.files["Clinic B.join"] = sign_join(
            msgspec.structs.replace(said, public=bytes(32)), b.key
        )
        board = here.board()
        assert board.missing_joins == ("Clinic B",)
        assert "Clinic B holds no proper X25519 key" in board.problems[0]
        with pytest.raises(PoolInvalid, match="Clinic B did not"):
            checked(here)

    def test_answers_to_other_joins_would_make_the_own_one_worthless(self) -> None:
        here = pool()
        here.join()
        here.answer(0, here.members[1])
        c = here.members[2]
        here.files["Clinic C.join"] = make_join(here.terms, c.key, 22, c.name).join
        with pytest.raises(PoolInvalid, match="Clinic B answered another list of joins"):
            checked(here)

    def test_more_rows_than_can_be_added_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        here = pool()
        here.join()
        monkeypatch.setattr("sudare.pooling._sessions._MOST_SUM", 1e3)
        with pytest.raises(InvalidInput, match="fewer than 63 rows"):
            checked(here)


class TestJoin:
    @pytest.mark.parametrize("rows", [0, -1, 100_001])
    def test_as_many_rows_as_the_plan_allows(self, rows: int) -> None:
        here = pool()
        with pytest.raises(InvalidInput, match="between 1 and 100000 rows"):
            make_join(here.terms, here.members[0].key, rows, "x")

    def test_a_fresh_key_each_time(self) -> None:
        here = pool()
        one, two = (make_join(here.terms, here.members[0].key, 20, "x") for _ in range(2))
        assert one.private != two.private
        assert one.public != two.public


class TestSecret:
    def test_kept_and_read_again(self) -> None:
        here = pool()
        here.join()
        secret = here.secrets["Clinic A"]
        assert read_secret(secret.to_bytes()) == secret
        destroyed = msgspec.structs.replace(secret, private=b"")
        assert read_secret(destroyed.to_bytes()).public == b""

    @pytest.mark.parametrize(
        "changed", [{"private": b"short"}, {"private": b"x" * 33}, {"rows": "x"}, {"more": 1}]
    )
    def test_what_is_no_secret(self, changed: dict[str, Any]) -> None:
        here = pool()
        here.join()
        fields = msgspec.json.decode(here.secrets["Clinic A"].to_bytes())
        with pytest.raises(InvalidInput, match="cannot be read: a new attempt is needed"):
            read_secret(msgspec.json.encode(fields | changed))

    @given(data=st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        with pytest.raises(InvalidInput, match="cannot be read"):
            read_secret(data)

    def test_is_never_printed(self) -> None:
        """Nor shown by tracebacks that list variables, in whatever form."""
        here = pool()
        here.join()
        secret = here.secrets["Clinic A"]
        shown = f"{secret} {secret!r} {[secret]} {pretty_repr(secret)} {pretty_repr([secret])}"
        with pytest.raises(PoolInvalid) as refused:
            checked(here, rows=1)
        shown += "".join(traceback.format_exception(refused.value)) + str(refused.value.args)
        with pytest.raises(InvalidInput) as cut:
            read_secret(secret.to_bytes()[:-1])
        assert cut.value.__suppress_context__
        shown += "".join(traceback.format_exception(cut.value))
        for spelled in (
            repr(secret.private)[2:-1],
            secret.private.hex(),
            msgspec.json.encode(secret.private).decode()[1:-1],
            "Clinic A.join",
        ):
            assert spelled not in shown
        assert secret.plan[:12] in shown


def test_noise_is_drawn_afresh_and_masks_are_not() -> None:
    """A second draw under the same masks shows what it adds up to: bytes must be kept."""
    here = pool()
    here.join()
    board, a = here.board(), here.members[0]
    secret = here.secrets[a.name]
    noisy = [pooling.noisy_sums(board, 0, a.table, a.targets, None) for _ in range(2)]
    assert noisy[0] != noisy[1]
    words = [
        pooling.open_answer(
            pooling.masked_answer(board, 0, each, None, secret, a.key), here.terms, here.keyring
        ).said.words
        for each in noisy
    ]
    gap = (words[0] - words[1]).view(np.int64).tolist()
    assert gap == [one - two for one, two in zip(*noisy, strict=True)]
