"""Runs inside multi-freq-ldpy's environment: one JSON request a line, one answer a line.

{"do": "one report", "epsilon": 1.0, "seconds": 0.02}
{"do": "one longitudinal report", "epsilon": 1.0, "seconds": 0.02}
"""

import json
import sys
from functools import partial

from multi_freq_ldpy.long_freq_est.L_GRR import L_GRR_Client  # type: ignore[import-not-found]
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client  # type: ignore[import-not-found]

from benchmarks.table import best_of


def main() -> None:
    """Answer with seconds a call until nobody asks any more."""
    for line in sys.stdin:
        request = json.loads(line)
        epsilon = request["epsilon"]
        if request["do"] == "one report":
            call = partial(GRR_Client, 1, 2, epsilon)
        else:
            call = partial(L_GRR_Client, 1, 2, epsilon, epsilon / 2)
        print(json.dumps(best_of(call, 1, request["seconds"])), flush=True)


if __name__ == "__main__":
    main()
