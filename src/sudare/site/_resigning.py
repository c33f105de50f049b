"""Sign the numbers of a release again: for a key that is lost, or a name that is wrong.

The numbers stay what they are, so nothing is drawn and nothing is spent. The ledger keeps what was
signed again beside the first, under the entry that paid for both; neither is ever removed. Whoever
receives both uses the later one (`sudare.site._receiving`), as the numbers are the same.
"""

import hashlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec

from sudare.exchange import SigningKey, file_name, put, seal_release, unverified
from sudare.foundations import checks
from sudare.foundations.privacy import account
from sudare.ledger import Ledger, Receipt
from sudare.site._releasing import Published, try_place

_PART = "as-"


def resign(
    ledger: Ledger, key: SigningKey, *, party: str, place: str, entry: int | None = None
) -> Published:
    """A kept release under this name and key, at no cost; asked again, the same file again.

    Args:
        entry: Its number in the ledger; it may be left out if the ledger has kept one release.
    """
    receipt = _chosen(ledger, entry)
    kept = ledger.kept(receipt.request)
    assert kept is not None
    signed, signer = unverified(kept)
    if (signed.release.party, signer) == (party, key.public.fingerprint):
        raise checks.InvalidInput(f"It was signed by this key as {party!r} in the first place")
    try_place(place)

    def make() -> bytes:
        release = msgspec.structs.replace(signed.release, party=party)
        certificate = msgspec.structs.replace(
            signed.certificate, moment=_later_than(signed.certificate.moment)
        )
        return seal_release(release, certificate, key)

    part = part_name(receipt.request, party, key)
    data, repeated = ledger.keep_once(receipt, make, part)
    address = put(place, file_name(party, data), data)
    sentence = str(account([receipt.event], signed.certificate.delta))
    return Published(address, receipt, sentence, repeated)


def part_name(request: str, party: str, key: SigningKey) -> str:
    """Under which a release is kept that was signed again."""
    text = "\n".join([request, party, key.public.fingerprint])
    return _PART + hashlib.sha256(text.encode()).hexdigest()[:32]


def _chosen(ledger: Ledger, entry: int | None) -> Receipt:
    # A pool's answers are kept in parts, and are nobody's release alone.
    kept = [each for each in ledger.record() if "" in each.kept]
    if entry is not None:
        kept = [each for each in kept if each.receipt.number == entry]
        if not kept:
            raise checks.InvalidInput(f"The ledger has kept no release under entry {entry}")
    if not kept:
        raise checks.InvalidInput("The ledger has kept no release that could be signed again")
    if len(kept) > 1:
        known = "; ".join(f"{each.receipt.number}: {each.purpose}" for each in kept)
        raise checks.InvalidInput(f"Which entry of the ledger is meant? It has {known}")
    return kept[0].receipt


def _later_than(moment: str) -> str:
    """Now, and in any case later than the first, so that receivers can tell which is newer."""
    now = datetime.now(UTC)
    with suppress(ValueError, TypeError, OverflowError):  # then it sorts as it may
        now = max(now, datetime.fromisoformat(moment) + timedelta(seconds=1))
    return now.isoformat(timespec="seconds")
