"""A tour with no data of one's own: learn together, the same on real data, count, audit.

Patients, clinics and devices are made up from a seed. Keys and noise of the signed releases are
real and differ each time; the tables are simulated from the seed and do not.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from sklearn.datasets import load_breast_cancer

from sudare.audit import catalogue
from sudare.counting import Survey, empty_tally, estimate, open_office, smooth
from sudare.demo._clinics import CLINICS, EPSILON, PATIENTS, run_day
from sudare.demo._compare import METHODS, Array, Holding, average, compare
from sudare.demo._patients import encode, patients, write_patients
from sudare.foundations.mechanisms import draw_masks
from sudare.foundations.privacy import account
from sudare.foundations.randomness import Generator, as_generator
from sudare.learners import PublicScaler

__all__ = ["encode", "patients", "run", "write_patients"]

Progress = Callable[[str, int, int], None]

_EPSILONS = (1.0, 2.0, 5.0)
_RUNS = 4
_HOSPITALS = 5


def run(out: Console, *, seed: int | None, progress: Progress, folder: Path) -> None:
    """Tell the story; files go to `folder`."""
    rng = as_generator(seed)
    folder.mkdir(parents=True, exist_ok=True)
    out.print(
        "[bold]sudare[/bold] · learn and count together without anyone seeing anyone's data\n"
    )
    report = _learn_together(out, rng, progress, folder)
    _real_data(out, rng, progress)
    _count(out, rng)
    _audit(out, rng, progress)
    out.print(
        "[bold]Try next[/bold]\n"
        f"  open {report} in a browser\n"
        f"  sudare verify {folder}/releases --trust {folder}/trust.toml   who signed what\n"
        "  sudare pool --help   one noise for everybody instead of one each\n"
        "  sudare plan count --users 10000 --rounds 24 --epsilon 2   plan a survey",
        highlight=False,
    )


def _learn_together(out: Console, rng: Generator, progress: Progress, folder: Path) -> Path:
    out.print(
        f"[bold cyan]1 Learn together[/bold cyan]  {CLINICS} made-up clinics with {PATIENTS} "
        f"patients each. Each publishes one signed release at ε = {EPSILON:g}; no row leaves."
    )
    day = run_day(folder, rng, progress)
    out.print(f"  {day.accepted} releases verified. [bold]{day.model.story.sentence}[/bold]")
    out.print(f"  A forged one was refused: {day.forged}", style="yellow")
    out.print(f"  So was a clinic that wanted more: {day.overdrawn}", style="yellow")
    _aside(out, day.model.story.parties[0].sentence)
    tables = []
    for done in range(_RUNS):
        drawn = [patients(PATIENTS, rng) for _ in range(CLINICS)]
        parties = [_party(encode(rows), ill) for rows, ill in drawn]
        rows, ill = patients(5_000, rng)
        test = _party(encode(rows), ill)
        tables.append(compare(parties, test, _EPSILONS, rng, lambda: None))
        progress("comparing blends", done + 1, _RUNS)
    out.print(f"  One clinic's model on 5,000 new patients, share correct (mean of {_RUNS} runs):")
    _show(out, average(tables))
    _aside(
        out,
        "hedged: one release of each clinic, every one with noise of its own. pooled sum: one sum "
        "of all clinics with one noise (sudare pool), at the same ε as long as more than half of "
        "them are honest. one place: all rows together. Noise in this table is simulated.",
    )
    return day.report_path


def _real_data(out: Console, rng: Generator, progress: Progress) -> None:
    table, benign = load_breast_cancer(return_X_y=True)
    # Ranges as printed with the data set's description; a study would fix them beforehand.
    scaler = PublicScaler(0.0, np.ceil(table.max(axis=0) * 10) / 10).fit(table)
    tables = []
    for done in range(_RUNS):
        order = rng.permutation(len(table))
        test, rest = order[:170], order[170:]
        shares = np.array_split(rest, _HOSPITALS)
        parties = [_party(scaler.transform(table[s]), benign[s] > 0) for s in shares]
        held = _party(scaler.transform(table[test]), benign[test] > 0)
        tables.append(compare(parties, held, _EPSILONS, rng, lambda: None))
        progress("real data", done + 1, _RUNS)
    out.print(
        f"[bold cyan]2 The same on real data[/bold cyan]  Breast cancer over {_HOSPITALS} "
        f"hospitals of 80 patients, 30 columns, 170 held out (mean of {_RUNS} splits):"
    )
    _show(out, average(tables))
    out.print("  Few parties with many columns: here there is little to gain, and it is shown.\n")


def _show(out: Console, found: dict[float, dict[str, float]]) -> None:
    table = Table("ε", *METHODS)
    for epsilon, row in found.items():
        best = max(METHODS[:-1], key=lambda name: row[name])
        table.add_row(
            f"{epsilon:g}",
            *(f"[bold]{row[m]:.1%}[/bold]" if m == best else f"{row[m]:.1%}" for m in METHODS),
        )
    out.print(Padding(table, (0, 0, 0, 2)))


def _count(out: Console, rng: Generator) -> None:
    survey = Survey(name="at-home", rounds=24, epsilon=2.0, method="masks", slots=2)
    users = 12_000
    hours = np.arange(24)
    shares = 0.55 + 0.35 * np.cos((hours - 2) / 24 * 2 * np.pi)
    bits = rng.random((users, 24)) < shares
    office = open_office(survey, rng.bytes(32))
    everyone = np.arange(users)
    rounds = np.array([ticket.rounds for ticket in office.issue_many(everyone)])
    masks = draw_masks(survey.law, users, rng)
    tally = empty_tally(survey)
    for slot in range(survey.slots):
        due = rounds[:, slot]
        tally = tally.add(due, bits[everyone, due] ^ masks[:, slot].astype(bool))
    found = estimate(tally, survey, users=users)
    curve = smooth(found)
    out.print(
        f"[bold cyan]3 Count[/bold cyan]  Who is at home? {users:,} households answer "
        f"{survey.slots} times in {survey.rounds} hours, through coins of their own."
    )
    table = Table("hour", "true share", "estimate", "95 % for all hours", "smoothed")
    for hour in (2, 8, 14, 20):
        table.add_row(
            f"{hour}:00",
            f"{bits[:, hour].mean():.3f}",
            f"{found.share[hour]:.3f}",
            f"{found.low[hour]:.3f} to {found.high[hour]:.3f}",
            f"{curve[hour]:.3f}",
        )
    out.print(Padding(table, (0, 0, 0, 2)))
    _aside(out, str(account([survey.event])))


def _audit(out: Console, rng: Generator, progress: Progress) -> None:
    out.print("[bold cyan]4 Audit[/bold cyan]  Can anyone tell two neighbouring inputs apart?")
    known = catalogue()
    for name in ("ridge-without-ball", "ridge-in-ball"):
        case = known[name]
        finding = case.run(
            runs=60_000, rng=rng, progress=lambda done, all_: progress("auditing", done, all_)
        )
        word = "[red]refuted[/red]" if finding.violated else "[green]not refuted[/green]"
        out.print(f"  {case.title}: {word}")
        _aside(out, finding.verdict)


def _party(rows: Array, second: NDArray[np.bool_]) -> Holding:
    return Holding(rows, np.where(second, 1.0, -1.0))


def _aside(out: Console, text: str) -> None:
    """The fine print, indented."""
    out.print(Padding(Text(text, style="dim"), (0, 0, 1, 2)))
