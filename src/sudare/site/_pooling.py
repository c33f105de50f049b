"""An organisation's part in a pool: run again and again, it does whatever can be done now.

    join      free: a fresh key and the number of rows, once everything was rehearsed
    answer    charged, durably, before any noise is drawn; kept in the ledger before it is written
    finish    anyone's: the sum of all answers as one file, the same bytes for everybody

Files are exchanged through any place that releases are. It may lie: delete, delay, repeat and show
different things to different people. Then nothing can be read, and nothing but the own answer was
spent. What an organisation signs depends on its rows in two ways only, their number and the noisy
sums that were paid for. Whether it signs depends on them where `take_part` refuses rows that do not
fit the study, which happens before it has joined; `take_part_unattended` never does.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sudare.blending import receive
from sudare.exchange import SigningKey, exists, file_name, get_all, put
from sudare.foundations import checks
from sudare.ledger import Ledger
from sudare.pooling import (
    ANSWER_SUFFIX,
    JOIN_SUFFIX,
    Board,
    Member,
    PoolInvalid,
    PoolTerms,
    Secret,
    check_answer,
    make_join,
    masked_answer,
    noisy_sums,
    open_answer,
    pooled_release,
    read_secret,
    write_pooled,
)
from sudare.site._pool import Pool, PoolStatus, pool_status
from sudare.site._receiving import POOLED_NAME
from sudare.site._releasing import read_charged, try_place
from sudare.storage.files import read_bytes, replace_file
from sudare.storage.lock import InUse, only_one
from sudare.study import Block, Study, read_every_row, read_table


def take_part(
    source: Any, pool: Pool, ledger: Ledger, key: SigningKey, *, home: str | Path
) -> PoolStatus:
    """Join, answer or finish, whichever can be done now; run it again until it is done.

    `home` is a folder of one's own, for the secret key of this attempt.
    """
    return _Desk(pool, ledger, key, Path(home), read_table).work(source)


def take_part_unattended(
    source: Any, pool: Pool, ledger: Ledger, key: SigningKey, *, home: str | Path
) -> PoolStatus:
    """The same, whatever the rows hold: what does not fit the study becomes public constants."""
    return _Desk(pool, ledger, key, Path(home), read_every_row).work(source)


@dataclass(frozen=True)
class _Desk:
    """What one organisation needs to take part."""

    pool: Pool
    ledger: Ledger
    key: SigningKey
    home: Path
    read: Callable[[Any, Study], Block]

    @property
    def own(self) -> Member:
        member = self.pool.plan.member(self.key.public.fingerprint)
        if member is None:
            raise PoolInvalid("Your key is not in the plan: you take no part in this pool")
        return member

    @property
    def secret_path(self) -> Path:
        return self.home / f"pool-{self.pool.terms.digest[:12]}.secret"

    def work(self, source: Any) -> PoolStatus:
        """One run, alone: two at once would make two joins, and the second ends the attempt."""
        try:
            lock = only_one(self.secret_path)
        except InUse as holder:
            raise checks.SudareError(
                f"{holder} is at work in this pool already: let it finish. Nothing was done"
            ) from None
        except OSError as problem:
            raise self._unwritable(problem) from None
        try:
            return self._work(source)
        finally:
            os.close(lock)

    def _work(self, source: Any) -> PoolStatus:
        own, board = self.own, self.pool.board()
        dataset, fingerprint, block = read_charged(self.read, source, self.pool.study, self.ledger)
        request = _request(self.pool.terms, fingerprint, own.key)
        try_place(self.pool.place)
        if own.key not in board.joins:
            self._join(dataset, fingerprint, len(block.rows), request)
            board = self.pool.board()
        charged = False
        if not board.missing_joins:
            before = self.ledger.receipt(request)
            board = self._answer(board, dataset, fingerprint, block, request)
            charged = before is None and self.ledger.receipt(request) is not None
        status = pool_status(self.pool, board, charged=charged)
        if status.state == "done":
            _finish(self.pool, board)
        return status

    def _join(self, dataset: str, fingerprint: str, rows: int, request: str) -> None:
        """Join, once everything that can go wrong later has gone right; the same join ever after.

        The secret is safe on disk before anyone sees the key that belongs to it.
        """
        terms = self.pool.terms
        if self.secret_path.exists():
            secret = read_secret(read_bytes(self.secret_path))
        elif self.ledger.receipt(request) is not None:
            raise PoolInvalid(
                "You answered in this pool before, and now your join is gone from the folder and "
                f"{self.secret_path} from here: begin a new attempt. What you answered is spent"
            )
        else:
            self.ledger.check_room(dataset, terms.event())
            secret = make_join(terms, self.key, rows, fingerprint)
            self._keep(secret)
        self._put(JOIN_SUFFIX, secret.join)

    def _answer(
        self, board: Board, dataset: str, fingerprint: str, block: Block, request: str
    ) -> Board:
        """Every session that can be answered, in their order."""
        sessions = range(len(self.pool.terms.sessions))
        for session in sessions:
            if session != sessions[-1] and self._is_over(board, session):
                continue
            part = f"session-{session}"
            data = self.ledger.kept(request, part)
            if data is None:
                secret = self._prepare(board, session, len(block.rows), fingerprint, request)
                receipt = self.ledger.spend(
                    dataset,
                    self.pool.terms.event(),
                    request=request,
                    purpose=f"pool for study {self.pool.study.name}, "
                    f"attempt {self.pool.plan.attempt}",
                )
                make = partial(self._draw, board, session, block, secret)
                data, _ = self.ledger.keep_once(receipt, make, part)
            elif self._answered_roster(data) != board.roster.digest:
                raise PoolInvalid(
                    "You answered another list of joins in this attempt: somebody signed two, or "
                    "the folder shows different people different files. Begin a new attempt; what "
                    "you answered is spent"
                )
            if session == sessions[-1]:
                self._forget()
            if self.own.key not in board.answers[session]:
                self._put(f"-s{session}{ANSWER_SUFFIX}", data)
                board = self.pool.board()
            if board.missing_answers(session):
                break
        return board

    def _is_over(self, board: Board, session: int) -> bool:
        """Whether everybody has answered it, oneself to the joins that are here."""
        if board.missing_answers(session):
            return False
        return board.answers[session][self.own.key].said.roster == board.roster.digest

    def _prepare(
        self, board: Board, session: int, rows: int, fingerprint: str, request: str
    ) -> Secret:
        """Refuse, before anything is spent, whatever would go wrong while answering."""
        if not self.secret_path.exists():
            raise PoolInvalid(
                f"{self.secret_path}, the secret you joined with, is gone or on another machine: "
                "put it back, or begin a new attempt. Nothing was spent by this run"
            )
        secret = read_secret(read_bytes(self.secret_path))
        if not secret.private:
            raise PoolInvalid(
                "Your answers were made, and their secret destroyed, but the ledger here does not "
                "hold them: it is not the ledger you answered with. Nothing was spent"
            )
        check_answer(board, secret, self.own.key, rows, fingerprint)
        # Whoever has answered is not gone, however old its join is.
        silent = set(board.missing_answers(session)) - {self.own.name}
        stale = [name for name in board.stale_joins(datetime.now(UTC)) if name in silent]
        if stale and self.ledger.receipt(request) is None:
            raise PoolInvalid(
                f"The joins of {', '.join(stale)} are older than {self.pool.plan.fresh_days:g} "
                "days, or from the future: whoever made them may be gone, and then your answer "
                "would be spent for nothing. Begin a new attempt. Nothing was spent"
            )
        board.theta(session)  # refuses sums and coefficients that do not fit
        return secret

    def _draw(self, board: Board, session: int, block: Block, secret: Secret) -> bytes:
        assert block.targets is not None
        targets = block.targets
        if self.pool.study.task == "classification":
            targets = np.where(targets > 0, 1.0, -1.0)
        theta = board.theta(session)
        noisy = noisy_sums(board, session, block.rows, targets, theta)
        return masked_answer(board, session, noisy, theta, secret, self.key)

    def _answered_roster(self, data: bytes) -> str:
        return open_answer(data, self.pool.terms, self.pool.keyring).said.roster

    def _forget(self) -> None:
        """The last answer is kept: nobody needs the key of this attempt any more."""
        if self.secret_path.exists():
            secret = read_secret(read_bytes(self.secret_path))
            if secret.private:
                self._keep(msgspec.structs.replace(secret, private=b""))

    def _keep(self, secret: Secret) -> None:
        try:
            replace_file(self.secret_path, secret.to_bytes(), 0o600)
        except OSError as problem:
            raise self._unwritable(problem) from None

    def _unwritable(self, problem: OSError) -> checks.SudareError:
        return checks.SudareError(f"Cannot write {self.secret_path}: {problem.strerror}")

    def _put(self, suffix: str, data: bytes) -> None:
        put(self.pool.folder, file_name(self.own.name, data, suffix), data)


def _finish(pool: Pool, board: Board) -> None:
    """Write the result, if the place does not hold it already."""
    data = write_pooled(board)
    for dropped in receive([pooled_release(board)]).dropped:
        raise PoolInvalid(
            f"Everybody answered, but the sum is impossible ({dropped.reason}): somebody answered "
            "with numbers that are not sums of rows. Nobody can tell who"
        )
    address = f"{pool.folder}/{POOLED_NAME}"
    held = [each for _, each in get_all(address, largest=len(data))] if exists(address) else []
    if held != [data]:
        put(pool.folder, POOLED_NAME, data)


def _request(terms: PoolTerms, fingerprint: str, key: str) -> str:
    """The name of this one answer: plan, data and signer; not the list of joins, which a folder
    could change between two runs."""
    parts = ["pool", terms.digest, fingerprint, key]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
