"""The tour runs, is the same for a seed, and keeps what it promises on the way."""

from io import StringIO

from rich.console import Console

from sudare import demo
from sudare.randomness import seeded


def tour(seed: int | None) -> tuple[str, list[tuple[str, int, int]]]:
    page = StringIO()
    ticks: list[tuple[str, int, int]] = []
    demo.run(
        Console(file=page, width=100),
        seed=seed,
        progress=lambda title, done, total: ticks.append((title, done, total)),
    )
    return page.getvalue(), ticks


def test_the_tour_tells_its_four_chapters_and_repeats_itself() -> None:
    told, ticks = tour(7)
    for chapter in ("1 Count", "2 Learn", "3 Add up", "4 Audit", "Try next"):
        assert chapter in told
    assert "coefficients unbounded: refuted" in told
    assert "over the ball: not refuted" in told
    assert {title for title, _, _ in ticks} == {"training", "auditing"}
    assert tour(7)[0] == told


def test_patients_stay_mostly_within_the_public_bounds() -> None:
    rows, ill = demo.patients(5_000, seeded(0))
    low, high = zip(*demo.BOUNDS.values(), strict=True)
    inside = (rows >= low) & (rows <= high)
    assert rows.shape == (5_000, len(demo.BOUNDS))
    assert inside.mean() > 0.99
    assert 0.3 < ill.mean() < 0.7
