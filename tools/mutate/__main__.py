"""python -m tools.mutate [module ...]: put small faults into modules and see which tests notice."""

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.mutate import report
from tools.mutate.modules import PRIVACY, ROOT, files_testing, source_of
from tools.mutate.operators import Mutant, mutants
from tools.mutate.running import Result, Runner

RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    """Run a sample of mutants, or all; exit 1 if one lives without a reason."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutate")
    parser.add_argument("modules", nargs="*", metavar="module", help="such as blending.hedged")
    parser.add_argument("--tests", nargs="+", type=Path, help="instead of those that mirror it")
    parser.add_argument("--sample", type=int, help="so many mutants of all; by default each")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="at once")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/mutation.md")
    parser.add_argument("--lived", action="store_true", help="only what lived when last saved")
    options = parser.parse_args()
    saved = report.saved(RESULTS)
    chosen = _sample(options.modules or PRIVACY, options.sample, options.seed)
    if options.lived:
        alive = {report.key(one["mutant"]) for one in saved if one["outcome"] == "lived"}
        chosen = [mutant for mutant in chosen if report.key(asdict(mutant)) in alive]
    results: list[dict[str, Any]] = []
    for result in _run(chosen, options.tests, options.jobs):
        print(report.line(result), flush=True)
        results.append(asdict(result) | {"seed": options.seed if options.sample else None})
        if options.save:
            report.save(RESULTS, saved, results)
    print("\n" + report.table(results))
    known = report.reasons()
    living = [one["mutant"] for one in results if one["outcome"] == "lived"]
    return int(any(report.key(mutant) not in known for mutant in living))


def _sample(modules: list[str] | tuple[str, ...], number: int | None, seed: int) -> list[Mutant]:
    """The same whatever else is asked for: each mutant has its own place in the draw."""
    every = [m for name in modules for m in mutants(name, source_of(ROOT, name).read_text())]
    if number is None:
        return every

    def place(mutant: Mutant) -> bytes:
        text = f"{seed} {mutant.module} {mutant.number} {mutant.before} {mutant.after}"
        return hashlib.blake2b(text.encode(), digest_size=8).digest()

    drawn = set(sorted(every, key=place)[:number])
    return [mutant for mutant in every if mutant in drawn]


def _run(chosen: list[Mutant], tests: list[Path] | None, jobs: int) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="mutate-") as scratch:
        runner = Runner(ROOT, Path(scratch), jobs)
        try:
            for module in dict.fromkeys(mutant.module for mutant in chosen):
                source = source_of(ROOT, module)
                files = [path.resolve() for path in tests] if tests else files_testing(ROOT, module)
                known = runner.know(source, files)
                print(f"{module}: {len(known.seconds)} tests", flush=True)
                mine = [mutant for mutant in chosen if mutant.module == module]
                yield from runner.run(mine, source, files, known)
        finally:
            runner.stop()


if __name__ == "__main__":
    sys.exit(main())
