"""One file of cases for every language that takes part: from words and bits to reports and state.

`python -m tests.counting.vectors` writes it again. Nobody should have to: devices in the field
draw and answer by the file as it is.
"""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.counting import MemoryStore, Reporter, Survey, Ticket
from sudare.counting._tickets import MARK_BYTES
from sudare.counting.wire import report_json
from sudare.foundations.randomness import seeded
from tests.coins import Tape
from tests.counting.devices import state_of
from tests.support import ROOT

FILE = ROOT / "tests" / "golden" / "client-vectors.json"
START = datetime(2026, 12, 1, 6, 30, tzinfo=UTC)
TOP = 2**64 - 1

SURVEYS: list[tuple[Survey, tuple[int, ...], int]] = [
    (Survey(name="glance", rounds=6, epsilon=1.0), (4,), 0),
    (Survey(name="harmony", rounds=6, epsilon=0.5, method="harmony"), (0,), 0),
    (Survey(name="signed", rounds=6, epsilon=40.0, method="harmony-signed"), (5,), 0),
    (Survey(name="rappor", rounds=9, epsilon=4.5, method="rappor"), (), 0),
    (Survey(name="masks", rounds=6, epsilon=2.0, method="masks", slots=3), (1, 2, 5), 0),
    (
        Survey(name="m2", rounds=8, epsilon=1e-3, method="masks", slots=5, threshold=2),
        (0, 2, 3, 5, 7),
        0,
    ),
    (
        Survey(name="m30", rounds=40, epsilon=7.25, method="masks", slots=30),
        tuple(range(3, 33)),
        0,
    ),
    (Survey(name="m0", rounds=3, epsilon=3.0, method="masks", slots=3, threshold=0), (0, 1, 2), 0),
    (Survey(name="tree", rounds=8, epsilon=2.0, method="tree", changes=3), (), 0),
    (Survey(name="tree 1", rounds=13, epsilon=2.0, method="tree", changes=2), (), 1),
    (Survey(name="tree 70", rounds=70, epsilon=5.0, method="tree", changes=30), (), 0),
    (Survey(name="tree 3", rounds=8, epsilon=0.1, method="tree", changes=1), (), 3),
    (
        Survey(
            name='日本 "é" \\ 😀',
            question="Is <somebody> at home / away?",
            rounds=24,
            epsilon=0.1 + 0.2,
            start=START.replace(microsecond=500),
            round_seconds=3600,
        ),
        (23,),
        0,
    ),
    (
        Survey(name="short", rounds=10**6, epsilon=1.5, start=START, round_seconds=1e-6),
        (999_999,),
        0,
    ),
    (Survey(name="long", rounds=1, epsilon=1e-5, start=START, round_seconds=2.5e16), (0,), 0),
    *(
        (
            Survey(
                name=f"flips {level}",
                rounds=13,
                epsilon=2.5,
                method="tree",
                changes=4,
                flips="stretches",
            ),
            (),
            level,
        )
        for level in (0, 1, 2, 3)
    ),
]


class Exhausted(Exception):
    """A case has too few words."""


class ShortTape(Tape):
    """Plays the given words and no others."""

    def random_raw(self, size: int) -> NDArray[np.uint64]:
        if len(self.words) < self.used + size:
            raise Exhausted
        return super().random_raw(size)


def made() -> list[dict[str, Any]]:
    """Every case, as this version of sudare would write it."""
    return [case for number in range(len(SURVEYS)) for case in _of_survey(number)]


def worked(case: dict[str, Any]) -> dict[str, Any]:
    """A case with everything that follows from its inputs worked out again."""
    survey = msgspec.convert(case["survey"], Survey)
    given = case["ticket"]
    mark = base64.urlsafe_b64decode(given["mark"] + "==")
    ticket = Ticket(survey.digest(), given["serial"], mark, tuple(given["rounds"]), given["level"])
    store = MemoryStore()
    tape: Any = ShortTape(int(word) for word in case["words"])
    reporter = Reporter.enrol(survey, ticket, store, tape)
    fresh = state_of(store)
    reports = []
    for t, bit in case["bits"]:
        if (report := reporter.report(t, bit)) is not None:
            reports.append(
                {
                    "round": t,
                    "json": json.loads(report_json(report)),
                    "packed": report.pack().hex(),
                }
            )
    after = state_of(store)
    law = survey.law_at(ticket.level)
    return {
        "survey": json.loads(msgspec.json.encode(survey)),
        "digest": survey.digest().hex(),
        "law": {
            "slots": law.slots,
            "threshold": law.threshold,
            "near_weight": str(law.near_weight),
            "far_weight": str(law.far_weight),
            "total": str(law.total),
        },
        "ticket": {**given, "survey": survey.digest().hex()},
        "words": case["words"],
        "flips": list(fresh["flips"]),
        "coins": list(fresh["coins"]),
        "bits": case["bits"],
        "reports": reports,
        "state": {
            "sent": {str(slot): bit for slot, bit in after["sent"].items()},
            **{name: after[name] for name in ("round", "bit", "moves")},
        },
    }


def _of_survey(number: int) -> Iterator[dict[str, Any]]:
    survey, rounds, level = SURVEYS[number]
    rng = seeded(number)
    law = survey.law_at(level)
    need = 15 if survey.method == "rappor" else 3 * law.slots + 4
    several = [[int(w) for w in rng.bit_generator.random_raw(need)] for _ in range(2)]
    # Words that are dropped, the last that is not, and the two sides of the law's first step.
    end = 2**64 - 2**64 % law.total
    several.append([TOP, end, TOP, end - 1, 0, *several[0]])
    several.append([law.near_weight - 1, *several[1]])
    several.append([law.near_weight, TOP, *several[1]])
    for words in several:
        bits = [[t, int(rng.integers(2))] for t in _asked(survey)]
        ticket = {
            "serial": int(rng.integers(2**48)),
            "mark": base64.urlsafe_b64encode(rng.bytes(MARK_BYTES)).rstrip(b"=").decode(),
            "rounds": list(rounds),
            "level": level,
        }
        inputs = {"survey": json.loads(msgspec.json.encode(survey)), "ticket": ticket}
        yield worked({**inputs, "words": [str(word) for word in words], "bits": bits})


def _asked(survey: Survey) -> list[int]:
    """Every round of a short survey; of a long one, the last."""
    return list(range(max(0, survey.rounds - 80), survey.rounds))


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in made())
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
