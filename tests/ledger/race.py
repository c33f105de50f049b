"""Run as a program: several processes spend from one ledger until it is empty.

One line for each receipt. They are forked from one process that has imported everything, so that
they start together.
"""

import os
import sys

from sudare.foundations.privacy import PureEvent
from sudare.ledger import BudgetExceeded, Ledger


def spend_all(place: str, amount: float) -> None:
    with Ledger(place) as ledger:
        while True:
            try:
                receipt = ledger.spend("people", PureEvent(amount))
            except BudgetExceeded:
                return
            os.write(1, f"{receipt.number}\n".encode())


def main(place: str, amount: str, processes: str) -> None:
    gate_out, gate_in = os.pipe()
    children = []
    for _ in range(int(processes)):
        child = os.fork()
        if child == 0:
            os.close(gate_in)
            os.read(gate_out, 1)  # until every other end is closed
            try:
                spend_all(place, float(amount))
            except BaseException as problem:
                os.write(2, f"{type(problem).__name__}: {problem}\n".encode())
                os._exit(1)
            os._exit(0)
        children.append(child)
    os.close(gate_in)
    ended = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(any(ended))


if __name__ == "__main__":
    main(*sys.argv[1:])
