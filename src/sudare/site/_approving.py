"""A second person's approval, before the ledger is charged.

Where a ledger's policy asks for it, a release stops before the spend and writes down what it would
be: study, data set, rows, price, who signs. An approver signs these very bytes; run again, the
release finds the signatures and goes on. Nobody approves what they sign themselves.
"""

from pathlib import Path
from typing import Literal

import msgspec

from sudare.exchange import Keyring, ReleaseInvalid, SigningKey, open_signed, public_key, sign
from sudare.foundations import checks
from sudare.foundations.privacy import Event
from sudare.ledger import Policy
from sudare.site._plan import ReleasePlan
from sudare.storage.files import read_bytes, replace_file

APPROVAL = "sudare-approval/1"
REQUEST_SUFFIX, SUFFIX = ".request", ".approval"


class ApprovalNeeded(checks.PrivacyError):
    """The release waits for a second person; nothing was spent."""


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked for. Public numbers only: it is handed to another person."""

    format: Literal["sudare-approval/1"]
    study: str
    digest: str
    dataset: str
    party: str
    signer: str
    rows: int
    epsilon: float
    delta: float
    sentence: str
    event: Event
    request: str

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self, order="sorted")


def read_request(path: Path) -> ApprovalRequest:
    """What somebody asks one to approve."""
    try:
        return msgspec.json.decode(read_bytes(path), type=ApprovalRequest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, checks.InvalidInput):
        raise checks.InvalidInput(f"{path} is not a request for an approval") from None


def approve(path: Path, key: SigningKey) -> Path:
    """Sign a request; where the approval was written, beside it."""
    asked = read_request(path)
    if key.public.fingerprint == asked.signer:
        raise checks.InvalidInput("This key signs the release itself: a second person approves it")
    name = f"{path.name.removesuffix(REQUEST_SUFFIX)}-{key.public.fingerprint[:12]}{SUFFIX}"
    _write(path.with_name(name), sign(asked.to_bytes(), APPROVAL, key))
    return path.with_name(name)


def approvals(
    policy: Policy, planned: ReleasePlan, dataset: str, party: str, key: SigningKey, request: str,
    folder: Path | None,
) -> list[bytes]:  # fmt: skip
    """The approvals that a release has; if they are too few, it is asked for, and not made."""
    terms = planned.study.privacy
    asked = ApprovalRequest(
        format="sudare-approval/1",
        study=planned.study.name,
        digest=planned.study.digest(),
        dataset=dataset,
        party=party,
        signer=key.public.fingerprint,
        rows=planned.n,
        epsilon=terms.epsilon,
        delta=terms.delta,
        sentence=planned.sentence,
        event=planned.event,
        request=request,
    )
    found = {} if folder is None else _signed(folder, policy, asked)
    if len(found) >= policy.approvals:
        return list(found.values())
    where = ""
    if folder is not None:
        path = folder / f"{request[:12]}{REQUEST_SUFFIX}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise checks.InvalidInput(f"Cannot make {folder}: {problem.strerror}") from None
        _write(path, asked.to_bytes())
        where = f" Hand them {path}, for: sudare approve {path}"
    raise ApprovalNeeded(
        f"This ledger asks for {policy.approvals} approval{'s' * (policy.approvals > 1)} by "
        f"{', '.join(policy.approvers)}, and has {len(found)}. Nothing was spent.{where}"
    )


def _signed(folder: Path, policy: Policy, asked: ApprovalRequest) -> dict[str, bytes]:
    """Of each approver one approval of exactly this; others' and other ones do not count."""
    ring = Keyring({name: public_key(line) for name, line in policy.approvers.items()})
    found = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            data = read_bytes(path)
            opened = open_signed(data, APPROVAL, ring)
        except (ReleaseInvalid, checks.InvalidInput):
            continue
        if opened.payload == asked.to_bytes() and opened.fingerprint != asked.signer:
            found[opened.fingerprint] = data
    return found


def _write(path: Path, data: bytes) -> None:
    try:
        replace_file(path, data, 0o644)
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {path}: {problem.strerror}") from None
