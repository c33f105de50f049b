"""A model of everybody's rows, from verified releases: coefficients with intervals.

Everything is computed from what was released before, so that it costs nobody anything more.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from sudare import __version__
from sudare.estimation import (
    Coefficient,
    Description,
    Model,
    NoisySums,
    alike,
    describe,
    estimate_linear,
    estimate_session,
    estimate_sites,
)
from sudare.exchange import Keyring, get_all
from sudare.foundations import checks
from sudare.pooling import Board, open_pooled
from sudare.releases import LARGEST_POOLED, MomentsRelease, PooledRelease
from sudare.site._describing import Source, source_of, usable_moments
from sudare.site._model import Refusal
from sudare.site._receiving import Checked
from sudare.study import Study

Method = Literal["auto", "together", "sites"]
_FEWEST_SITES = 3
SESSIONS = ("logistic", "poisson")
"""Kinds of pools whose last session a model is read from."""
_MOMENTS_ALONE = (
    "it holds moments alone. They determine no {what} regression unless rows are normal: intervals "
    "made of them have missed in up to half of all cases"
)
_ASK = "ask for a pool with 'sudare pool new --kind {kind}'"
_SMALLER = "another pool has more rows: a model is read from one"


class Estimated(msgspec.Struct, frozen=True, kw_only=True):
    """A model of everybody's rows, and what it was made from."""

    model: Model
    about: str
    outcome: str
    """What is predicted, in words."""
    sources: tuple[Source, ...]
    refusals: tuple[Refusal, ...]
    honest: tuple[tuple[int, float], ...] = ()
    """Of a pool, pairs (h, ε): what holds if h of its members keep their share of the noise."""
    table: Description | None = None
    """The table 1 of the same rows, if it was asked for."""
    digest: str
    """Of the study."""
    software: str = f"sudare {__version__}"

    @property
    def sentence(self) -> str:
        """Whose model this is."""
        many = sum(source.organisations for source in self.sources)
        noun = "organisation" if many == 1 else "organisations"
        kind = {"linear": "linear", "logistic": "logistic", "poisson": "Poisson"}
        return (
            f"A {kind[self.model.family]} regression of {self.outcome} on {self.model.n} rows of "
            f"{many} {noun}. Computed from what they had released: no further ε is spent."
        )


def estimate_releases(
    checked: Sequence[Checked],
    study: Study,
    keyring: Keyring,
    *,
    level: float = 0.95,
    method: Method = "auto",
    table: bool = False,
) -> Estimated:
    """The model of all rows behind the releases that passed; nobody's rows count twice.

    Args:
        checked: What `collect` found.
        study: Under which they were released.
        keyring: Whose signatures count; pools are read again.
        level: Probability with which an interval is to hold its number.
        method: For targets that are numbers: add everybody up under one law, or compare sites. By
            default sites are compared where at least three released separately and none pooled.
        table: Make the table 1 of the same rows, too.
    """
    used, refusals = usable_moments(checked, study)
    notes: list[str] = []
    if study.task == "regression" and not _sessions(checked, used):
        model = _linear(used, study, level, method)
        if study.target.counts:
            notes.append(f"The target is a count. For rate ratios, {_ASK.format(kind='poisson')}.")
    else:
        if method == "sites":
            raise checks.InvalidInput(
                "Expected a study whose target is a number: separate releases hold moments, and "
                "moments determine no other regression. " + _ASK.format(kind="logistic")
            )
        model, used, more = _from_session(checked, used, study, keyring, level)
        refusals += more
    if model.sites is None:
        notes += _differences(used)
    pools = [each for each in used if isinstance(each, PooledRelease)]
    return Estimated(
        model=msgspec.structs.replace(model, notes=(*model.notes, *notes)),
        about=study.description,
        outcome=_outcome(study),
        sources=tuple(source_of(release, study) for release in used),
        refusals=tuple(refusals),
        honest=pools[0].honest if len(pools) == 1 == len(used) else (),
        table=describe(NoisySums.of(used), study, level=level) if table else None,
        digest=study.digest(),
    )


def _outcome(study: Study) -> str:
    target = study.target
    if target.classes is None:
        return target.column
    return f"{target.column} = {target.classes[1]}"


def _linear(used: Sequence[MomentsRelease], study: Study, level: float, method: Method) -> Model:
    pools = [each for each in used if isinstance(each, PooledRelease)]
    if method == "sites" or (method == "auto" and not pools and len(used) >= _FEWEST_SITES):
        return estimate_sites(used, study, level=level)
    residuals = NoisySums.of(pools) if pools else None
    return estimate_linear(NoisySums.of(used), study, level=level, residuals=residuals)


def _sessions(
    checked: Sequence[Checked], used: Sequence[MomentsRelease]
) -> list[tuple[Checked, MomentsRelease]]:
    """Pools that have sessions, the largest first."""
    found = []
    for each in checked:
        if each.trusted is not None and _kind(each) in SESSIONS:
            found += [(each, one) for one in used if one.party == each.trusted.signer]
    return sorted(found, key=lambda pair: -pair[1].n)


def _kind(checked: Checked) -> str:
    assert checked.trusted is not None
    return str(checked.trusted.signed.certificate.parameters.get("kind", ""))


def _from_session(
    checked: Sequence[Checked],
    used: Sequence[MomentsRelease],
    study: Study,
    keyring: Keyring,
    level: float,
) -> tuple[Model, list[MomentsRelease], list[Refusal]]:
    """By the sessions of the largest pool that has any; all else is set aside."""
    pools = _sessions(checked, used)
    kind = "logistic" if study.task == "classification" else "Poisson"
    alone = _MOMENTS_ALONE.format(what=kind)
    if not pools:
        names = "".join(f"\n  {each.party}: {alone}" for each in used)
        raise checks.InvalidInput(
            f"Expected a pool of kind {kind.lower()!r}: {_ASK.format(kind=kind.lower())}. "
            f"'sudare describe' tells the outcome by category from any moments.{names}"
        )
    (best, release), others = pools[0], [each for _, each in pools[1:]]
    board = _board(best, study, keyring)
    last = len(board.terms.sessions) - 1
    family = board.terms.plan.kind
    assert family in ("logistic", "poisson")
    model = estimate_session(
        board.newton(last),
        release.n,
        study,
        family,
        level=level,
        earlier=board.newton(last - 1) if last > 1 else None,
    )
    refusals = [
        Refusal(what=each.party, reason=_SMALLER if each in others else alone)
        for each in used
        if each is not release
    ]
    return model, [release], refusals


def _board(checked: Checked, study: Study, keyring: Keyring) -> Board:
    """What the members of a pool signed, read and verified again for its sessions."""
    assert checked.trusted is not None
    for address, data in get_all(checked.address, largest=LARGEST_POOLED):
        if address == checked.address:
            board = open_pooled(data, keyring, study.digest())
            if board.terms.digest == checked.trusted.fingerprint:
                return board
    raise checks.InvalidInput(f"{checked.address} was exchanged while it was read: try again")


def _differences(used: Sequence[MomentsRelease]) -> Iterator[str]:
    """What pools themselves say of whether their members are alike."""
    for release in used:
        if not isinstance(release, PooledRelease):
            continue
        if alike(release).differ:
            yield (
                f"The organisations of {release.party} clearly differ: the pool's own number for "
                "that is beyond chance and noise. They may differ in their rows, in outcomes, or "
                "in how these depend on each other; if the latter, the intervals above are too "
                "short."
            )
        else:
            yield (
                "The pool's own number for how far its organisations differ shows no more than "
                "chance and noise. Only large differences would show there."
            )


CSV_HEADER_ESTIMATES = (
    "term",
    "column",
    "level",
    "reference",
    "source",
    "rows",
    "weight",
    "estimate",
    "std_error",
    "low",
    "high",
    "z",
    "p",
    "ratio",
    "ratio_low",
    "ratio_high",
    "told",
    "reason",
)
"""What the cells of `estimate_rows` are."""
EVERYBODY = "everybody"
"""The source of the consortium's own coefficients; site's have their names."""


def estimate_rows(model: Model) -> Iterator[tuple[object, ...]]:
    """One line for each coefficient, then one for each site's."""
    ratios = model.family != "linear"
    for place, found in enumerate(model.coefficients):
        yield _csv(found, EVERYBODY, model.n, 1.0, ratios)
        for site in () if model.sites is None else model.sites[place]:
            yield _csv(site.coefficient, site.name, site.rows, site.weight, ratios)


def _csv(
    found: Coefficient, source: str, rows: int, weight: float, ratios: bool
) -> tuple[object, ...]:
    term = found.term
    numbers = (found.estimate, found.std_error, found.low, found.high, found.z, found.p)
    ratio = found.ratio if ratios and found.told else (None, None, None)
    words = (term.name, term.column, term.level, term.reference, source, rows, weight)
    return (*words, *numbers, *ratio, found.told, found.reason)
