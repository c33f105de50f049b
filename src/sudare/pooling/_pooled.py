"""The result of a pool: all that was signed, in one file that everybody makes alike.

It holds the plan, every join and every answer, and so all signatures: whoever trusts the members'
keys checks them and adds up the answers again, and need not trust the sender. Two parties
that saw the same files write the same bytes.
"""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare import __version__
from sudare.exchange import FORMAT, Certificate, Keyring, SignedRelease, Trusted
from sudare.foundations.privacy import account
from sudare.pooling._board import ANSWER_SUFFIX, JOIN_SUFFIX, Board, read_board
from sudare.pooling._messages import PoolInvalid
from sudare.pooling._plan import PoolPlan
from sudare.pooling._sessions import APART_RADIUS, APART_ROWS, FARTHEST_THETA, PoolTerms
from sudare.pooling._sums import MomentSums, read_moments
from sudare.releases import LARGEST_POOLED, Pooled, PooledLearner, PooledRelease

POOLED = "sudare-pooled/1"


class _Bundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    answers: tuple[tuple[str, ...], ...]
    format: str
    joins: tuple[str, ...]
    plan: PoolPlan


def write_pooled(board: Board) -> bytes:
    """The result, if all have answered every session; the same bytes wherever it is made."""
    for number in range(len(board.terms.sessions)):
        board.sum(number)  # refuses what cannot be added up
    keys = [member.key for member in board.terms.plan.members]
    return msgspec.json.encode(
        _Bundle(
            format=POOLED,
            plan=board.terms.plan,
            joins=tuple(board.joins[key].data.decode() for key in keys),
            answers=tuple(tuple(one[key].data.decode() for key in keys) for one in board.answers),
        ),
        order="sorted",
    )


def open_pooled(data: bytes, keyring: Keyring, study: str | None = None) -> Board:
    """What was signed, all of it verified again; raises only `PoolInvalid`."""
    if len(data) > LARGEST_POOLED:
        raise PoolInvalid(f"The file is larger than {LARGEST_POOLED >> 20} MB: no pool is")
    try:
        bundle = msgspec.json.decode(data, type=_Bundle)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise PoolInvalid("This is not a pooled release, or not a whole one") from None
    if bundle.format != POOLED:
        raise PoolInvalid("This is a pooled release of a version not known here")
    if study is not None and bundle.plan.study != study:
        raise PoolInvalid("It belongs to another study, or to another version of this one")
    _check_extent(bundle, keyring)
    try:
        terms = PoolTerms.of(bundle.plan)
    except Exception:  # whatever numbers a stranger wrote into a plan
        raise PoolInvalid("No pool can be made by its plan") from None
    files = [(JOIN_SUFFIX, text.encode()) for text in bundle.joins]
    files += [(ANSWER_SUFFIX, text.encode()) for one in bundle.answers for text in one]
    board = read_board(files, terms, keyring)
    if board.problems:
        raise PoolInvalid(board.problems[0].partition(": ")[2])
    if missing := board.missing_joins:
        raise PoolInvalid(f"It is not complete: {', '.join(missing)} did not join")
    if write_pooled(board) != data:
        raise PoolInvalid("It is not in the form in which pools are written")
    return board


def _check_extent(bundle: _Bundle, keyring: Keyring) -> None:
    """Before anything is computed: no more than our own keys can have signed."""
    trusted, plan = {key.fingerprint for _, key in keyring}, bundle.plan
    if stranger := next((each for each in plan.members if each.key not in trusted), None):
        raise PoolInvalid(
            f"{stranger.name!r} takes part with a key that is not in the keyring "
            f"({stranger.key!r}): trust it first"
        )
    most = len(plan.members)
    lists = [bundle.joins, *bundle.answers]
    if len(lists) > 1 + len(plan.split) or any(len(each) > most for each in lists):
        raise PoolInvalid("It holds more joins or answers than its plan asks for")


def pooled_release(board: Board) -> Pooled:
    """The sum of all moments, or what gradients led to, in the form that can be blended."""
    terms = board.terms
    plan, sizes = terms.plan, tuple(seat.rows for seat in board.roster.seats)
    if plan.kind == "gradients":
        walked = board.descent
        return PooledLearner(
            coefficients=tuple(walked.result(board.visited).tolist()),
            noise_std=walked.noise_std,
            radius=FARTHEST_THETA * walked.unit,
            slack=0.0,
            **_common(terms, sizes),
        )
    return _moments_release(terms, board.moments, sizes)


def simulated_release(
    terms: PoolTerms, steps: NDArray[np.int64], sizes: tuple[int, ...]
) -> PooledRelease:
    """What a pool would release whose first session sums up to `steps`, its noise in it.

    For trying things out: the noise comes from a seed, nothing was signed, and it is marked so.

    Args:
        sizes: Rows of each member, in the order of the plan.
    """
    release = _moments_release(terms, read_moments(terms.sessions[0], steps), sizes)
    return msgspec.structs.replace(release, simulated=True)


def _moments_release(terms: PoolTerms, sums: MomentSums, sizes: tuple[int, ...]) -> PooledRelease:
    upper = np.triu_indices(terms.plan.contract.dimension)
    return PooledRelease(
        noise_std=terms.noise_std,
        cross=tuple(sums.cross.tolist()),
        gram=tuple(sums.gram[upper].tolist()),
        squares=sums.squares,
        apart=sums.apart,
        apart_noise_std=terms.apart_noise_std,
        apart_rows=APART_ROWS,
        apart_radius=APART_RADIUS,
        **_common(terms, sizes),
    )


def _common(terms: PoolTerms, sizes: tuple[int, ...]) -> dict[str, Any]:
    plan = terms.plan
    return {
        "party": f"pool of {len(plan.members)} organisations",
        "contract": plan.contract,
        "n": sum(sizes),
        "event": terms.event(),
        "members": tuple(member.key for member in plan.members),
        "sizes": sizes,
        "delta": plan.delta,
        "honest": tuple((each.honest, each.epsilon) for each in terms.curve),
    }


def trust_pooled(data: bytes, keyring: Keyring, study: str | None = None) -> Trusted:
    """A pooled release like any other: who vouches for it, its numbers, its certificate.

    The certificate is not read but computed: from the plan, which all have signed.
    """
    board = open_pooled(data, keyring, study)
    plan, terms = board.terms.plan, board.terms
    release = pooled_release(board)
    certificate = Certificate(
        study=plan.study,
        epsilon=plan.epsilon,
        delta=plan.delta,
        sentence=str(account([release.event], plan.delta)),
        parameters=parameters(terms),
        receipt=board.roster.digest,
        moment=max(each.said.moment for one in board.answers for each in one.values()),
        software=f"sudare {__version__}",
    )
    signed = SignedRelease(format=FORMAT, release=release, certificate=certificate)
    return Trusted(signer=release.party, fingerprint=terms.digest, signed=signed)


def parameters(terms: PoolTerms) -> dict[str, float | int | str | bool | None]:
    """What decided the noise, and what holds for every number of honest organisations."""
    plan = terms.plan
    told: dict[str, float | int | str | bool | None] = {
        "kind": plan.kind,
        "attempt": plan.attempt,
        "organisations": len(plan.members),
        "colluders": plan.colluders,
        "alone": plan.alone,
        "sessions": len(terms.sessions),
        "numbers": sum(session.entries for session in terms.sessions),
        "noise_std": terms.noise_std,
        "share_of_noise_std": terms.sessions[0].shares().noise_std(1),
    }
    if isinstance(plan.most_count, int):
        told["most_count"] = plan.most_count
    for honest, epsilon in terms.curve:
        told[f"epsilon if {honest} honest"] = epsilon
    return told
