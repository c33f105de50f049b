"""A metric under its own ε: how well the others' releases, averaged, predict a node's rows.

The loss is that of a *public* model, the plain average of what the others released. It is not the
loss of the node's blend: that model was fitted to the same rows without noise, so one row can move
all of its predictions, and no noise short of useless would hide it.

Guarantee: ε-DP for replace-one neighbours with the number of rows public. A row's loss is clipped
to [0, H] and counted in whole 2⁻²⁰ths of H, so replacing a row moves the sum by at most 2²⁰ steps,
and exact discrete Laplace noise of scale 2²⁰/ε hides that. The ledger is charged first. Of each
study a node tells at most `metric_times` metrics, ever; asked again about the same releases it
repeats the first answer. Whether there is one depends on budget, policy and releases, never on
rows.
"""

import hashlib
import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.blending import LossName, receive, steps_lost
from sudare.exchange import SigningKey
from sudare.federation._messages import Metric
from sudare.federation._node import Node
from sudare.foundations import checks, exact
from sudare.foundations.privacy import PureEvent
from sudare.foundations.rounding import up
from sudare.ledger import Ledger
from sudare.site import Checked
from sudare.study import Block, Study, raw_content, read_every_row

_STEPS = 2**20
"""As `steps_lost` counts."""
_LARGEST = 1e150
"""Of coefficients, added up: their product with any row is a number. NaN has no loss to clip."""


class _Told(msgspec.Struct, frozen=True):
    """What the ledger keeps of a metric."""

    about: str
    metric: Metric


def tell_metric(
    study: Study, checked: Sequence[Checked], node: Node, key: SigningKey
) -> Metric | None:
    """The metric about these releases, published before or now; None if no more may be."""
    trusted = [each.trusted for each in checked if each.trusted is not None]
    releases = [each.release for each in trusted if each.fingerprint != key.public.fingerprint]
    learners = receive(releases, study.contract).as_learners()
    if not len(learners):
        return None
    theta = learners.coefficients.mean(axis=0)
    if not np.abs(theta).sum() < _LARGEST:
        return None
    about = hashlib.sha256(theta.tobytes()).hexdigest()
    with Ledger(node.ledger) as ledger:
        fingerprint = ledger.fingerprint(raw_content(node.data))
        known = ledger.known(fingerprint)
        if known is None:
            raise checks.PrivacyError("These data have no budget: open them in the ledger first")
        dataset, version = known
        block = read_every_row(node.data, study)
        if ledger.fingerprint(raw_content(node.data)) != fingerprint:
            raise checks.PrivacyError("The data were changed while they were read")
        noise = exact.laplace(up(_STEPS / node.policy.metric_epsilon))
        # OpenDP's own word for it; the scale was rounded up so that it is ε at most.
        price = max(node.policy.metric_epsilon, noise.loss(float(_STEPS)))
        event = PureEvent(price, unit=study.privacy.unit)

        def make() -> bytes:
            (steps,) = noise.add_noise([_steps(study, block, theta)])
            metric = _metric(study, steps, len(block.rows), event.epsilon)
            return msgspec.json.encode(_Told(about, metric))

        for turn in range(node.policy.metric_times):
            request = _request(study, version, node.party, key, turn)
            if (kept := ledger.kept(request)) is None:
                receipt = ledger.spend(
                    dataset, event, request=request, purpose=f"metric for study {study.name}"
                )
                kept, _ = ledger.keep_once(receipt, make)
            told = msgspec.json.decode(kept, type=_Told)
            if told.about == about:
                return told.metric
    return None


def _steps(study: Study, block: Block, theta: NDArray[np.float64]) -> int:
    """The exact number of steps lost; one row counts for at most 2²⁰ of them."""
    assert block.targets is not None
    loss: LossName = "zero-one" if study.task == "classification" else "squared"
    contract = study.contract
    rows = contract.rows(block.rows)
    targets = np.where(block.targets > 0, 1.0, -1.0) if loss == "zero-one" else block.targets
    return int(steps_lost(rows, targets, theta[None], loss, _loss_bound(study), 1.0)[0])


def _loss_bound(study: Study) -> float:
    return 1.0 if study.task == "classification" else 4.0


def _metric(study: Study, steps: int, rows: int, epsilon: float) -> Metric:
    unit = _loss_bound(study) / (_STEPS * rows)
    return Metric(
        measure="share wrong" if study.task == "classification" else "squared error",
        value=steps * unit,
        noise_std=math.sqrt(2) * _STEPS / epsilon * unit,
        rows=rows,
        epsilon=epsilon,
    )


def _request(study: Study, fingerprint: str, party: str, key: SigningKey, turn: int) -> str:
    parts = ("metric", str(turn), study.digest(), fingerprint, party, key.public.fingerprint)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
