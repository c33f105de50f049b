"""Reports: the hot route, without a framework in between.

One report in JSON is answered 204 as soon as it is durable, and so is the same report sent again:
whoever has no answer sends it again, and it counts once. A relay sends many, packed.
"""

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from starlette.types import Message, Receive, Scope, Send

from sudare import checks
from sudare.collector.engine import Verdict
from sudare.collector.errors import Refusal
from sudare.collector.messages import (
    MOST_RECORDS,
    BatchAnswer,
    SentReport,
    pack_report,
)
from sudare.collector.routes.bodies import check_length, media_type
from sudare.collector.routes.table import BINARY, JSON, PACKED, Content, Endpoint
from sudare.collector.writer import Full
from sudare.counting.reports import RECORD

if TYPE_CHECKING:
    from sudare.collector.service import Service

LONGEST_REPORT = 1024
"""Bytes of one report in JSON; about 80 are needed."""
_RECORD_BYTES = RECORD.itemsize
_LONGEST_BATCH = MOST_RECORDS * _RECORD_BYTES
_CODES = tuple(verdict.name.lower() for verdict in Verdict)
_HEADERS = [
    (b"access-control-allow-origin", b"*"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]
_DONE: Message = {"type": "http.response.start", "status": 204, "headers": _HEADERS}
_EMPTY: Message = {"type": "http.response.body", "body": b""}
_BATCH: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), *_HEADERS],
}


async def receive_reports(service: "Service", scope: Scope, receive: Receive, send: Send) -> None:
    """One report or a batch, counted and durable before it is answered."""
    headers = scope["headers"]
    service.admit_report(scope)
    kind = media_type(headers)
    if kind == b"application/json":
        check_length(headers, LONGEST_REPORT)
        body = await service.reader.read(receive, LONGEST_REPORT)
        try:
            record = pack_report(body)
        except checks.InvalidInput:
            raise Refusal("malformed") from None
        verdicts = await _count(service, record, 1)
        if verdicts[0] > Verdict.REPEATED:
            raise Refusal(_CODES[verdicts[0]])
        await send(_DONE)
        await send(_EMPTY)
    elif kind == b"application/octet-stream":
        check_length(headers, _LONGEST_BATCH)
        body = await service.reader.read(receive, _LONGEST_BATCH)
        count, rest = divmod(len(body), _RECORD_BYTES)
        if rest or not count:
            raise Refusal("malformed")
        verdicts = await _count(service, body, count)
        await send(_BATCH)
        await send({"type": "http.response.body", "body": summary(verdicts)})
    else:
        raise Refusal("wrong_type")


async def _count(service: "Service", records: bytes, count: int) -> bytes:
    try:
        verdicts = await service.writer.count(records, count)
    except Full:
        raise Refusal("unavailable") from None
    if verdicts is None:
        raise Refusal("unavailable")
    return verdicts


def summary(verdicts: bytes) -> bytes:
    """What became of a batch, in JSON."""
    if not any(verdicts):
        return b'{"counted":%d,"repeated":0,"refused":{}}' % len(verdicts)
    judged = np.frombuffer(verdicts, np.uint8)
    counts = np.bincount(judged, minlength=len(_CODES))
    refused = {
        _CODES[which]: np.flatnonzero(judged == which).tolist()
        for which in range(Verdict.REPEATED + 1, len(_CODES))
        if counts[which]
    }
    answer = BatchAnswer(int(counts[Verdict.COUNTED]), int(counts[Verdict.REPEATED]), refused)
    return msgspec.json.encode(answer)


_PROBLEMS = (
    "malformed", "unknown_slot", "wrong_mark", "unknown_survey", "too_slow", "too_late",
    "oversized", "wrong_type", "too_early", "rate_limited", "unavailable",
)  # fmt: skip
ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/surveys/{id}/reports",
        "Send one report, or a relay's packed batch",
        204,
        None,
        _PROBLEMS,
        raw=receive_reports,
        about="One report in JSON is answered 204 when it is durable, counted or counted before. "
        f"A batch is up to {MOST_RECORDS:,} records of {_RECORD_BYTES} bytes (serial: 8 bytes, "
        "slot: 4, bit: 1, mark: 16; little-endian) and is answered 200 with what became of them.",
        takes=(Content(JSON, SentReport), Content(PACKED, BINARY)),
        more=((200, Content(JSON, BatchAnswer)),),
    ),
)
