"""Whether a report's ticket is ours, and which cell it counts in."""

import numpy as np
from numpy.typing import NDArray

from sudare.collector import keys
from sudare.collector.stores import Store
from sudare.counting import Survey, Ticket, TicketOffice, open_office

Whole = NDArray[np.int64]


class Offices:
    """The ticket offices of a survey, one for each range of serials with a key of its own."""

    def __init__(self, survey: Survey, store: Store, key: bytes | None) -> None:
        self._survey, self._store, self._key = survey, store, key
        self._firsts = np.zeros(0, np.uint64)
        self._secrets: list[bytes] = []
        self._offices: list[TicketOffice] = []
        self._read()

    def issue(self, count: int) -> list[Ticket]:
        """Tickets that nobody has; their numbers are durable."""
        number, secret = self._store.issue(count)
        if secret not in self._secrets:
            self._read()
        office = self._offices[self._secrets.index(secret)]
        return office.issue_many(np.arange(number, number + count))

    def rotate(self) -> None:
        """Make tickets with a new key from the next block on."""
        self._store.add_range(keys.wrap(keys.new_key(), self._key), self._survey.rounds)
        self._read()

    def judge(
        self, serials: NDArray[np.uint64], reports: NDArray[np.void]
    ) -> tuple[Whole, NDArray[np.bool_]]:
        """Each report's cell, −1 for none, and whether its mark is right."""
        cells, good = self._judge(serials, reports)
        if self._store.shared and not good.all() and self._read():
            cells, good = self._judge(serials, reports)
        return cells, good

    def _judge(
        self, serials: NDArray[np.uint64], reports: NDArray[np.void]
    ) -> tuple[Whole, NDArray[np.bool_]]:
        if len(self._offices) == 1:
            return _judged(self._offices[0], serials, reports)
        which = np.searchsorted(self._firsts, serials, side="right") - 1
        cells, good = np.full(serials.size, -1), np.zeros(serials.size, np.bool_)
        for number in np.unique(which).tolist():
            mine = which == number
            cells[mine], good[mine] = _judged(self._offices[number], serials[mine], reports[mine])
        return cells, good

    def _read(self) -> bool:
        """Whether another collector has brought in a key that was not known here."""
        ranges = self._store.ranges()
        if [each.secret for each in ranges] == self._secrets:
            return False
        self._secrets = [each.secret for each in ranges]
        self._firsts = np.array([each.first for each in ranges], np.uint64)
        self._offices = [
            open_office(self._survey, keys.unwrap(secret, self._key)) for secret in self._secrets
        ]
        return True


def _judged(
    office: TicketOffice, serials: NDArray[np.uint64], reports: NDArray[np.void]
) -> tuple[Whole, NDArray[np.bool_]]:
    good = office.authentic(serials, reports["mark"].tobytes())
    # Numbers that strangers made up may be too large to have a cell.
    mine = serials if good.all() else np.where(good, serials, 0)
    return office.cells(mine, reports["slot"]), good
