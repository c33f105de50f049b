import numpy as np
import pytest

from sudare.demo._compare import METHODS, Holding, average, compare
from sudare.foundations.randomness import seeded


def test_every_method_is_judged_on_the_same_rows() -> None:
    rng = seeded(3)

    def party(n: int) -> Holding:
        rows = rng.normal(size=(n, 3)) / 3
        return Holding(rows, np.where(rng.random(n) < 1 / (1 + np.exp(-9 * rows[:, 0])), 1.0, -1.0))

    ticks: list[int] = []
    parties, test = [party(40) for _ in range(6)], party(1500)
    found = compare(parties, test, (1.0, 8.0), seeded(4), lambda: ticks.append(1))
    assert list(found) == [1.0, 8.0]
    assert len(ticks) == 2
    for row in found.values():
        assert set(row) == set(METHODS)
        assert all(0.3 < share < 1 for share in row.values())
    assert found[1.0]["one place"] == found[8.0]["one place"] > 0.8
    assert found[1.0]["own"] == found[8.0]["own"]
    assert found[1.0]["uniform"] != found[8.0]["uniform"]
    assert found[1.0]["pooled sum"] != found[8.0]["pooled sum"]
    assert found == compare(parties, test, (1.0, 8.0), seeded(4), lambda: None)


def test_average() -> None:
    tables = [{1.0: dict.fromkeys(METHODS, 0.25)}, {1.0: dict.fromkeys(METHODS, 0.75)}]
    assert average(tables) == {1.0: pytest.approx(dict.fromkeys(METHODS, 0.5))}
