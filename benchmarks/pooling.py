"""What a pool costs one organisation: CPU seconds to answer and to finish, and bytes.

An answer is the sums of a thousand own rows, exact noise for each number, and a mask with every
other organisation; it starts from the joins as files. Finishing verifies everybody's signatures and
adds up. The peer is what nobody can do without: OpenDP's exact noise for as many numbers.

Aims, for 100 organisations: 30 features within 1 s of CPU and 20 kB, 200 features within 5 s and
400 kB.
"""

import time
from typing import NamedTuple

import numpy as np

from benchmarks.table import Row
from sudare import pooling
from sudare.exchange import Keyring, SigningKey, new_key
from sudare.foundations.randomness import seeded
from sudare.pooling import Board, Member, PoolPlan, PoolTerms, Secret
from sudare.releases import Contract

ROWS = 1000


class _Aim(NamedTuple):
    members: int
    features: int
    seconds: float | None
    kilobytes: float | None


AIMS = (_Aim(5, 30, None, None), _Aim(100, 30, 1.0, 20.0), _Aim(100, 200, 5.0, 400.0))


def run(quick: bool) -> list[Row]:
    """One answer of each size; all answers where finishing is measured."""
    return [row for aim in (AIMS[:1] if quick else AIMS) for row in _rows(aim)]


def _rows(aim: _Aim) -> list[Row]:
    name = f"{aim.members} organisations, {aim.features} features"
    keys = sorted((new_key() for _ in range(aim.members)), key=lambda k: k.public.fingerprint)
    terms = PoolTerms.of(_plan(keys, aim.features))
    ring = Keyring({f"party {n}": key.public for n, key in enumerate(keys)})
    secrets = [pooling.make_join(terms, key, ROWS, "rows") for key in keys]
    files = [(f"{n}.join", secret.join) for n, secret in enumerate(secrets)]
    rng = seeded(1)
    table = rng.standard_normal((ROWS, aim.features)) / np.sqrt(aim.features)
    signs = np.where(table[:, 0] > 0, 1.0, -1.0)
    started = time.process_time()
    board = pooling.read_board(files, terms, ring)
    answer = _answer(board, secrets[0], keys[0], table, signs)
    seconds = time.process_time() - started
    numbers = terms.sessions[0].entries
    shares = terms.sessions[0].shares()
    started = time.process_time()
    shares.add_to([0] * numbers)
    noise = time.process_time() - started
    answers = [answer] + [
        _answer(board, secret, key, table, signs)
        for secret, key in zip(secrets[1:], keys[1:], strict=True)
    ]
    files += [(f"{n}.answer", data) for n, data in enumerate(answers)]
    started = time.process_time()
    whole = pooling.write_pooled(pooling.read_board(files, terms, ring))
    finish = time.process_time() - started
    return [
        Row(
            name=f"{name}: answer",
            value=seconds,
            unit="CPU s",
            baseline=f"exact noise of {numbers} numbers",
            baseline_value=noise,
            ratio=seconds / noise,
            aim="" if aim.seconds is None else f"<= {aim.seconds:g} s",
            ok=None if aim.seconds is None else seconds <= aim.seconds,
        ),
        Row(
            name=f"{name}: file of an answer",
            value=len(answer) / 1000,
            unit="kB",
            baseline="its numbers, 8 bytes each",
            baseline_value=8 * numbers / 1000,
            ratio=len(answer) / (8 * numbers),
            aim="" if aim.kilobytes is None else f"<= {aim.kilobytes:g} kB",
            ok=None if aim.kilobytes is None else len(answer) <= 1000 * aim.kilobytes,
        ),
        Row(name=f"{name}: join", value=len(secrets[0].join), unit="bytes"),
        Row(name=f"{name}: finish", value=finish, unit="CPU s"),
        Row(name=f"{name}: result", value=len(whole) / 1e6, unit="MB"),
    ]


def _plan(keys: list[SigningKey], features: int) -> PoolPlan:
    return PoolPlan(
        study="ab" * 32,
        contract=Contract(features=features, row_norm=1.0, constant=0.25, classes=("no", "yes")),
        epsilon=1.0,
        delta=1e-6,
        colluders=0,
        members=tuple(
            Member(name=f"party {n}", key=key.public.fingerprint) for n, key in enumerate(keys)
        ),
    )


def _answer(
    board: Board,
    secret: Secret,
    key: SigningKey,
    table: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    signs: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> bytes:
    own = key.public.fingerprint
    pooling.check_answer(board, secret, own, ROWS, "rows")
    noisy = pooling.noisy_sums(board, 0, table, signs, None)
    return pooling.masked_answer(board, 0, noisy, None, secret, key)
