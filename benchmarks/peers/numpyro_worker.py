"""Runs inside numpyro's environment: one JSON request a line, one answer a line.

{"data": NAME, "temperature": 0.4, "curvature": 10.0, "draws": 1000, "warmup": 500, "repeat": 3}

The data are signed rows z; the target is ∝ exp(−β·Σ log(1 + e^{−z·θ}) − (m/2)‖θ‖²). The answer has
the seconds that the draws took in the best of the repeats, after warming up and compiling, how many
gradients a draw took, and the draws of the last repeat.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax  # type: ignore[import-not-found]
import jax.numpy as jnp  # type: ignore[import-not-found]
import numpy as np
from numpyro.infer import MCMC, NUTS  # type: ignore[import-not-found]

jax.config.update("jax_enable_x64", True)


def main(folder: Path) -> None:
    """Answer until nobody asks any more."""
    for line in sys.stdin:
        request = json.loads(line)
        rows = np.load(folder / f"{request['data']}.npz")["rows"]
        print(json.dumps(_sample(request, jnp.asarray(rows))), flush=True)


def _sample(request: dict[str, Any], rows: Any) -> dict[str, Any]:
    beta, m = request["temperature"], request["curvature"]

    def potential(theta: Any) -> Any:
        return beta * jnp.logaddexp(0.0, -(rows @ theta)).sum() + m / 2 * theta @ theta

    chain = MCMC(
        NUTS(potential_fn=potential),
        num_warmup=request["warmup"],
        num_samples=request["draws"],
        progress_bar=False,
    )
    start = time.perf_counter()
    chain.warmup(jax.random.PRNGKey(0), init_params=jnp.zeros(rows.shape[1]))
    warmup = time.perf_counter() - start
    seconds = []
    for repeat in range(request["repeat"] + 1):
        start = time.perf_counter()
        # The warm-up is kept; a first run, which compiles, is not counted.
        chain.run(jax.random.PRNGKey(1 + repeat), extra_fields=("num_steps",))
        draws = np.asarray(chain.get_samples())
        seconds.append(time.perf_counter() - start)
    return {
        "warmup_seconds": warmup,
        "seconds": min(seconds[1:]),
        "gradients": float(np.mean(chain.get_extra_fields()["num_steps"])),
        "draws": draws.tolist(),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
