"""Pooling: one noise for everybody, by secure sums over small signed files.

Each organisation adds a share of the noise and a mask to its own sums; only the sum of all can be
read, and it carries the noise once instead of once for each organisation. Pure: `sudare.site` gives
it files, `sudare.federation` messages.

    plan      who, for which study, at which price, against how many colluders
    terms     the plan worked out: sessions, noise, what holds for every number of honest
    join      a fresh key and the number of rows; free
    answer    masked sums with a share of the noise; charged
    board     what has been signed so far, and the sums once everybody has answered
    pooled    the result: plan, joins and answers in one file that everybody makes alike
"""

from sudare.pooling._board import ANSWER_SUFFIX, JOIN_SUFFIX, Board, NewtonStep, read_board
from sudare.pooling._descent import Descent
from sudare.pooling._estimate import Estimated, newton_step
from sudare.pooling._messages import LARGEST_MESSAGE, PoolInvalid, moment_of, open_answer
from sudare.pooling._party import (
    Secret,
    check_answer,
    make_join,
    masked_answer,
    noisy_sums,
    read_secret,
)
from sudare.pooling._plan import Kind, Member, PoolPlan, read_plan
from sudare.pooling._pooled import (
    open_pooled,
    parameters,
    pooled_release,
    simulated_release,
    trust_pooled,
    write_pooled,
)
from sudare.pooling._sessions import HonestCost, PoolTerms, Session
from sudare.pooling._shares import NoiseShares
from sudare.pooling._sums import CountScale, MomentSums, NewtonSums, session_steps

__all__ = [
    "ANSWER_SUFFIX",
    "JOIN_SUFFIX",
    "LARGEST_MESSAGE",
    "Board",
    "CountScale",
    "Descent",
    "Estimated",
    "HonestCost",
    "Kind",
    "Member",
    "MomentSums",
    "NewtonStep",
    "NewtonSums",
    "NoiseShares",
    "PoolInvalid",
    "PoolPlan",
    "PoolTerms",
    "Secret",
    "Session",
    "check_answer",
    "make_join",
    "masked_answer",
    "moment_of",
    "newton_step",
    "noisy_sums",
    "open_answer",
    "open_pooled",
    "parameters",
    "pooled_release",
    "read_board",
    "read_plan",
    "read_secret",
    "session_steps",
    "simulated_release",
    "trust_pooled",
    "write_pooled",
]
