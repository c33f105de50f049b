"""Second reports that say something else than the first: a device with two states, or a forger.

The first one counts, and a second one is answered as any repeated report. That it differed can only
be seen by whoever still knows the bit: it is known for rounds that are open, in this process's
memory, and never written down.
"""

import numpy as np
from numpy.typing import NDArray

from sudare.collector.stores import Verdict
from sudare.collector.stores.sqlite import Bank

Whole = NDArray[np.int64]


class Conflicts:
    """What has been said, in banks as stores have them."""

    def __init__(self) -> None:
        self._heard: dict[int, tuple[Bank, Bank]] = {}

    def note(
        self,
        banks: Whole | int,
        serials: NDArray[np.uint64],
        bits: NDArray[np.uint8],
        verdicts: NDArray[np.uint8],
    ) -> int:
        """How many of these repeat a report, and say something else."""
        if isinstance(banks, int):
            return self._note(banks, serials, bits, verdicts)
        found = 0
        for bank in np.unique(banks).tolist():
            mine = banks == bank
            found += self._note(bank, serials[mine], bits[mine], verdicts[mine])
        return found

    def forget(self, banks: int) -> None:
        """Those of rounds that are over: banks from 1 to this one."""
        for bank in [bank for bank in self._heard if 1 <= bank <= banks]:
            del self._heard[bank]

    def _note(
        self,
        bank: int,
        serials: NDArray[np.uint64],
        bits: NDArray[np.uint8],
        verdicts: NDArray[np.uint8],
    ) -> int:
        if bank not in self._heard:
            self._heard[bank] = Bank(), Bank()
        heard, ones = self._heard[bank]
        new = verdicts == np.uint8(Verdict.COUNTED)
        if new.all():
            heard.add(serials)
            ones.add(serials[bits == 1])
            return 0
        # The first of a batch first: what it repeats itself is compared, too.
        heard.add(serials[new])
        ones.add(serials[new & (bits == 1)])
        again = (verdicts == np.uint8(Verdict.REPEATED)) & heard.holds(serials)
        return int(np.count_nonzero(again & (ones.holds(serials) != (bits == 1))))
