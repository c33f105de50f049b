"""The papers' figures, measured again with sudare's public interface and put beside their claims.

One module a figure. Each states what its paper claims, measures it with many seeds, draws it and
says whether the claim holds, does not hold, or holds with a correction. Noise is simulated from a
seed: the same seed gives the same numbers, whatever the number of processes.

    figures       what there is, by name
    reproduce     measure some of it and write pictures, tables and a page
"""

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from papers import drawing, files
from papers.figure import (
    Conclusion,
    Figure,
    Finding,
    Setting,
    Size,
    Unavailable,
    Verdict,
)
from papers.page import Outcome, Skipped, render
from papers.running import Progress, run
from sudare.foundations import checks

__all__ = [
    "Conclusion",
    "Figure",
    "Finding",
    "Outcome",
    "Report",
    "Setting",
    "Size",
    "Skipped",
    "Unavailable",
    "Verdict",
    "figures",
    "reproduce",
]

_MODULES = (
    "classification_1",
    "classification_3",
    "classification_4",
    "classification_5",
    "ridge_terms",
    "ridge_diabetes",
    "ridge_narrow",
    "gibbs_temperature",
    "gibbs_logistic",
    "gibbs_normal",
    "glance_1",
    "glance_2",
    "glance_3",
    "glance_masks",
    "glance_table_1",
    "glance_table_2",
)


@dataclass(frozen=True)
class Report:
    """What a reproduction came to."""

    setting: Setting
    outcomes: tuple[Outcome, ...]
    skipped: tuple[Skipped, ...]
    page: Path

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "size": str(self.setting.size),
            "seed": self.setting.seed,
            "page": str(self.page),
            "figures": [_told(outcome) for outcome in self.outcomes],
            "skipped": [{"figure": s.figure.name, "reason": s.reason} for s in self.skipped],
        }


@cache
def figures() -> dict[str, Figure]:
    """All figures by name, in the order of the papers."""
    found = [importlib.import_module(f"{__name__}.{module}").FIGURE for module in _MODULES]
    return {figure.name: figure for figure in found}


def reproduce(
    names: Iterable[str],
    out: str | Path,
    setting: Setting | None = None,
    *,
    jobs: int = 1,
    progress: Progress = lambda title, done, total: None,
) -> Report:
    """Measure figures and write them, and a page about all of them, to the folder `out`.

    "all" among the names means every figure. A figure whose data is not here is skipped and named.
    With more than one job, call this from a module that can be imported without running it.
    """
    setting = setting or Setting()
    checks.count(minimum=0, seed=setting.seed)
    checks.count(jobs=jobs)
    chosen = _chosen(list(names))
    drawing.require()
    folder = Path(out)
    files.make_folder(folder)
    work, skipped = [], []
    for figure in chosen:
        try:
            work.append((figure, figure.tasks(setting)))
        except Unavailable as problem:
            skipped.append(Skipped(figure, str(problem)))
    outcomes = []
    for figure, results in run(work, jobs, progress):
        made = files.write(figure, results, folder)
        table = figure.table(results) if figure.table is not None else None
        outcomes.append(Outcome(figure, figure.conclude(results), made, table))
    path = files.save_page(folder, render(outcomes, skipped, setting, folder))
    return Report(setting, tuple(outcomes), tuple(skipped), path)


def _chosen(names: list[str]) -> list[Figure]:
    known = figures()
    if not names:
        raise checks.InvalidInput("Expected the names of figures, or all")
    for name in names:
        if name != "all" and name not in known:
            raise checks.InvalidInput(
                f"Unknown figure {name!r}: expected all or one of {', '.join(known)}"
            )
    return [figure for name, figure in known.items() if name in names or "all" in names]


def _told(outcome: Outcome) -> dict[str, Any]:
    figure, told = outcome.figure, outcome.conclusion
    return {
        "figure": figure.name,
        "title": figure.title,
        "paper": figure.paper,
        "claim": figure.claim,
        "measured": told.measured,
        "differs": told.differs,
        "verdict": str(told.verdict),
        "findings": [
            {
                "statement": f.statement,
                "expected": f.expected,
                "measured": f.measured,
                "holds": f.holds,
                "corrected": f.corrected,
            }
            for f in told.findings
        ],
        "files": dict(outcome.files),
    }
