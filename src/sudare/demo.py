"""A one-minute tour with made-up people: count, learn, add up, audit."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sudare.audit import catalogue
from sudare.calibration.masks import mask_law
from sudare.learners import PrivateLogisticRegression, PublicScaler
from sudare.mechanisms import flip_bits
from sudare.privacy import Event, LocalEvent, account
from sudare.randomness import Generator, as_generator

Progress = Callable[[str, int, int], None]

BOUNDS = {
    "age": (18.0, 100.0),
    "systolic pressure": (80.0, 220.0),
    "cholesterol": (2.0, 12.0),
    "smoker": (0.0, 1.0),
}
"""Public knowledge, agreed on before anyone looks at a patient."""


def run(out: Console, *, seed: int | None, progress: Progress) -> None:
    """Tell the story; without a seed the noise is the real thing."""
    rng = as_generator(seed)
    out.print(
        "[bold]sudare[/bold] · learn and count together without anyone seeing anyone's data\n"
    )
    _count(out, rng)
    events = _learn(out, rng, seed, progress)
    _add_up(out, events)
    _audit(out, rng, progress)
    out.print(
        "[bold]Try next[/bold]\n"
        "  sudare audit --list                     what published formulas get wrong\n"
        "  sudare account pure:0.5x3 gaussian:0.4  what several releases cost together\n"
        "  sudare audit --help                     audit a mechanism of your own"
    )


def patients(n: int, rng: Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Made-up patients: four columns in the order of `BOUNDS`, and who fell ill."""
    age = rng.uniform(30, 90, n)
    pressure = rng.normal(110 + 0.4 * (age - 30), 14)
    cholesterol = rng.normal(5.2, 1.0, n)
    smoker = (rng.random(n) < 0.25).astype(float)
    score = 0.07 * (age - 62) + 0.03 * (pressure - 125) + 0.5 * (cholesterol - 5.2) + smoker - 0.3
    ill = rng.random(n) < 1 / (1 + np.exp(-score))
    return np.column_stack([age, pressure, cholesterol, smoker]), ill


def _count(out: Console, rng: Generator) -> None:
    people, epsilon = 10_000, 1.0
    at_home = rng.random(people) < 0.37
    law = mask_law(epsilon, 1)
    reports = flip_bits(at_home, epsilon, rng)
    estimate = 0.5 + (reports.mean() - 0.5) / law.attenuation
    margin = 1.96 * 0.5 / law.attenuation / np.sqrt(people)
    out.print(
        "[bold cyan]1 Count[/bold cyan]  Who is at home? Everyone answers with a biased coin."
    )
    out.print(f"  true share {at_home.mean():.3f}   estimate {estimate:.3f} ± {margin:.3f}")
    _aside(out, str(account([LocalEvent(epsilon)])))


def _learn(out: Console, rng: Generator, seed: int | None, progress: Progress) -> list[Event]:
    low, high = zip(*BOUNDS.values(), strict=True)
    scaler = PublicScaler(low, high)
    rows, ill = patients(3_000, rng)
    new_rows, new_ill = patients(20_000, rng)
    scaled, new_scaled = scaler.fit_transform(rows), scaler.transform(new_rows)
    table = Table("model", "ε", "correct on new patients")
    table.add_row("guessing", "0", f"{max(new_ill.mean(), 1 - new_ill.mean()):.1%}")
    models = [PrivateLogisticRegression(e, row_norm=1.0, rng=seed) for e in (0.2, 1.0, 5.0, 1e6)]
    for done, model in enumerate(models):
        correct = model.fit(scaled, ill).score(new_scaled, new_ill)
        epsilon = f"{model.epsilon:g}" if model.epsilon < 1e6 else "∞"
        table.add_row("private", epsilon, f"{correct:.1%}")
        progress("training", done + 1, len(models))
    out.print("[bold cyan]2 Learn[/bold cyan]  3,000 patients, four columns, public bounds.")
    out.print(table)
    _aside(out, str(models[1].guarantee_))
    return [model.event_ for model in models[:3]]


def _add_up(out: Console, events: list[Event]) -> None:
    total = account(events, delta=1e-6)
    out.print(
        "[bold cyan]3 Add up[/bold cyan]  Three models (ε = 0.2, 1, 5) are about the same patients."
    )
    out.print(f"  together ε = {total.epsilon():.4g} at δ = 1e-6\n")


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


def _aside(out: Console, text: str) -> None:
    """The fine print, indented."""
    out.print(Padding(Text(text, style="dim"), (0, 0, 1, 2)))
