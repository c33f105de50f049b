"""A collector in this process whose network, clock and honesty the test decides.

Only for what a real server cannot be made to do on time: lies, lost answers, jumps of the clock.
"""

import base64
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec

from sudare.counting import Client, MemoryStore, Report, StateStore, Survey, open_office
from sudare.counting.wire import survey_path

START = datetime(2026, 12, 1, tzinfo=UTC)


def survey_of(method: str = "masks", rounds: int = 6, **more: Any) -> Survey:
    fields: dict[str, Any] = {"name": "s", "epsilon": 1.0, "start": START, "round_seconds": 60.0}
    if method == "masks":
        fields["slots"] = 3
    if method == "tree":
        fields["changes"] = 2
    return Survey(**{**fields, "method": method, "rounds": rounds, **more})


class Pretend:
    """Answers as a collector does; `faults` are played one for each report that arrives."""

    def __init__(self, survey: Survey | None = None, *, grace: float = 6.0) -> None:
        self.survey = survey or survey_of()
        self.grace = grace
        self.time = START.timestamp()
        self.ahead = 0.0
        """How far the collector's clock is ahead of the device's."""
        self.slept: list[float] = []
        self.asked: list[tuple[str, str]] = []
        self.heard: list[tuple[float, dict[str, Any]]] = []
        """Every report that arrived, and when."""
        self.counted: dict[int, dict[str, Any]] = {}
        self.faults: list[str] = []
        self.offline = False
        self.described: dict[str, Any] = {}
        """Lies in the description."""
        self.ticket: dict[str, Any] = {}
        """Lies in the ticket."""
        self._issued = 0
        self._office = open_office(self.survey, bytes(32))

    def client(self, store: StateStore | Path | None = None, **more: Any) -> Client:
        return Client(
            "http://collector",
            MemoryStore() if store is None else store,
            httpx.MockTransport(self._handle),
            clock=lambda: self.time,
            sleep=self._sleep,
            **more,
        )

    def at(self, round_: float) -> None:
        """Let it be this round, by the device's clock."""
        assert self.survey.round_seconds is not None
        self.time = START.timestamp() + round_ * self.survey.round_seconds

    def run(self, client: Client, bits: Iterable[int], **more: Any) -> list[Report | None]:
        """One call in the middle of each round."""
        said = []
        for t, bit in enumerate(bits):
            self.at(t + 0.5)
            said.append(client.report(bit, **more))
        return said

    def description(self) -> dict[str, Any]:
        survey, law = self.survey, self.survey.law
        return {
            **json.loads(msgspec.json.encode(survey)),
            "id": survey.digest().hex()[:16],
            "digest": survey.digest().hex(),
            "now": datetime.fromtimestamp(self.time + self.ahead, UTC).isoformat(),
            "grace_seconds": self.grace,
            "skew_seconds": 3.0,
            "late_seconds": 0.0,
            "enrolment": "open",
            "law": {
                "slots": law.slots,
                "threshold": law.threshold,
                "near_weight": str(law.near_weight),
                "far_weight": str(law.far_weight),
            },
            **self.described,
        }

    def _sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.slept.append(seconds)
        self.time += seconds + 1e-3

    def _handle(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.lstrip("/")
        self.asked.append((request.method, path.rpartition("/")[2]))
        if self.offline:
            raise httpx.ConnectError("offline", request=request)
        if request.method == "GET":
            if path == "v1/surveys":
                return httpx.Response(200, json={"surveys": [self.description()]})
            if path == survey_path(self.survey):
                return httpx.Response(200, json=self.description())
            return refusal(404, "unknown_survey")
        if path == survey_path(self.survey, "tickets"):
            return self._issue()
        assert path == survey_path(self.survey, "reports")
        return self._count(json.loads(request.content), request)

    def _issue(self) -> httpx.Response:
        own = self._office.issue(self._issued)
        self._issued += 1
        told = {
            "survey": own.survey.hex(),
            "serial": own.serial,
            "mark": base64.urlsafe_b64encode(own.mark).rstrip(b"=").decode(),
            "rounds": list(own.rounds),
            "level": own.level,
            **self.ticket,
        }
        return httpx.Response(201, json={"tickets": [told]})

    def _count(self, report: dict[str, Any], request: httpx.Request) -> httpx.Response:
        self.heard.append((self.time, report))
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "request lost":
            raise httpx.ReadTimeout("lost", request=request)
        if fault == "garbage":
            return httpx.Response(200, content=b"<html>Please log in</html>")
        if fault and fault != "answer lost":
            status, code, *after = fault.split()
            headers = {"retry-after": after[0]} if after else {}
            return refusal(int(status), code, headers)
        known = self.counted.setdefault(report["slot"], report)
        assert known == report, "a slot was answered in two ways"
        if fault == "answer lost":
            raise httpx.ReadTimeout("lost", request=request)
        return httpx.Response(204)


def refusal(status: int, code: str, headers: dict[str, str] | None = None) -> httpx.Response:
    error = {"error": {"code": code, "message": f"It was {code}."}}
    return httpx.Response(status, json=error, headers=headers)


def transcripts(run: Callable[[int], Pretend]) -> tuple[list[Any], list[Any]]:
    """What was asked and when, without the bits said, for two opposite lives."""

    def seen(pretend: Pretend) -> list[Any]:
        sent = [(when, {**r, "bit": None}) for when, r in pretend.heard]
        return [pretend.asked, sent, pretend.slept]

    return seen(run(0)), seen(run(1))
