"""What a ledger asks for before it is charged: approvals by a second person.

The policy is a line of `ledger_meta` under the ledger's key, and a new one is a further line: all
of them stay, as a trail. Whose signatures count is part of it. `sudare.site` checks signatures, and
the ledger refuses a spend that comes with too few.
"""

import hmac

import msgspec

from sudare.foundations import checks
from sudare.ledger._chain import CHANGED, meta, now
from sudare.ledger._databases import LedgerError, Transaction
from sudare.ledger._keys import LedgerKey


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many people must approve a spend, and who may."""

    approvals: int = 0
    approvers: dict[str, str] = {}
    """The public key, as a line of JSON, for each name."""
    moment: str = ""

    def __post_init__(self) -> None:
        checks.count(0, approvals=self.approvals)
        if self.approvals > len(self.approvers):
            raise checks.InvalidInput(
                f"Expected at least {self.approvals} approvers, as so many must approve"
            )


def policies(lines: dict[str, str], key: LedgerKey) -> list[Policy]:
    """All that there were, oldest first; the last one holds."""
    texts = _texts(lines)
    if texts:
        written, _, text = texts[-1].partition(" ")
        if not hmac.compare_digest(_tag(key, lines, texts[:-1], text), written):
            raise LedgerError(CHANGED.format("The policy of"))
    return [msgspec.json.decode(text.partition(" ")[2], type=Policy) for text in texts]


def add_policy(step: Transaction, key: LedgerKey, policy: Policy) -> Policy:
    """From now on; what was before stays on record."""
    lines = meta(step)
    texts, dated = _texts(lines), msgspec.structs.replace(policy, moment=now())
    text = msgspec.json.encode(dated).decode()
    line = f"{_tag(key, lines, texts, text)} {text}"
    step.run("INSERT INTO ledger_meta VALUES (?, ?)", f"policy-{len(texts)}", line)
    return dated


def renew_policy(step: Transaction, key: LedgerKey) -> None:
    """Under a new key the policy of before holds on."""
    texts = _texts(meta(step))
    if texts:
        add_policy(step, key, msgspec.json.decode(texts[-1].partition(" ")[2], type=Policy))


def check_approvals(policy: Policy, given: int) -> None:
    """Refuse a spend that too few have approved."""
    if given < policy.approvals:
        raise checks.PrivacyError(
            f"This ledger asks for {policy.approvals} approval{'s' * (policy.approvals > 1)} by "
            f"{', '.join(policy.approvers)}, and has {given}: sudare approve. Nothing was spent"
        )


def _texts(lines: dict[str, str]) -> list[str]:
    found: list[str] = []
    while (name := f"policy-{len(found)}") in lines:
        found.append(lines[name])
    return found


def _tag(key: LedgerKey, lines: dict[str, str], before: list[str], text: str) -> str:
    return key.tag("policy", lines["fingerprint-key"], *before, text)
