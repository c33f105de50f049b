"""Signals: their shapes and ranges, and what can be wrong with a file of bits."""

from pathlib import Path

import numpy as np
import pytest

from sudare.counting import signals
from sudare.foundations.checks import InvalidInput


def test_made_signals_stay_in_range_and_look_as_told() -> None:
    made = [
        signals.constant(40, 0.3),
        signals.sine(40, 0.1, 0.9, periods=1),
        signals.step(40, 0.2, 0.7),
        signals.random_walk(40, step_std=0.5, rng=1),
        signals.independent(40, 0.3, 0.6, rng=1),
    ]
    assert all(s.shape == (40,) and s.min() >= 0 and s.max() <= 1 for s in made)
    flat, wave, jump, walk, noise = made
    assert set(flat) == {0.3}
    assert wave[[0, 10, 20, 30]] == pytest.approx([0.5, 0.9, 0.5, 0.1])
    assert jump.tolist() == [0.2] * 20 + [0.7] * 20
    assert signals.step(4, at=1).tolist() == [0.2, 0.8, 0.8, 0.8]
    assert walk[0] == 0.5
    assert len(set(walk)) == 40
    assert noise.min() >= 0.3
    assert noise.max() <= 0.6
    assert np.ptp(noise) > 0.2


def test_a_walk_has_the_steps_it_is_told() -> None:
    steps = np.diff(signals.random_walk(20_000, step_std=1e-4, rng=2))
    assert steps.std() == pytest.approx(1e-4, rel=0.03)
    assert not signals.random_walk(5, step_std=0.0).std()
    repeated = [signals.random_walk(9, rng=3) for _ in range(2)]
    assert (repeated[0] == repeated[1]).all()


@pytest.mark.parametrize(
    "text",
    ["1,0,1\n0,0,1\n", "t1,t2,t3\n1,0,1\n0,0,1\n", "user,a,b,c\n7,1,0,1\nx,0,0,1\n", ",a,b,c\n"
     "7,1,0,1\n\n8, 0,0,1 \n", "\ufeffid;".replace(";", ",") + "1,2,3\r\n1,1,0,1\r\n1,0,0,1"],
)  # fmt: skip
def test_files_of_bits(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bits.csv"
    file.write_text(text, encoding="utf-8")
    bits = signals.read_bits(file)
    assert bits.dtype == np.uint8
    assert bits.tolist() == [[1, 0, 1], [0, 0, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("user,a\n", "nothing else"),
        ("user\n1\n", "nothing else"),
        ("a,b\n1,0\n1,2\n", "line 3, round 2: expected 0 or 1"),
        ("a,b\n1,0\n1,\n", "line 3, round 2: expected 0 or 1"),
        ("a,b\n1,0\n10,1\n", "line 3, round 1: expected 0 or 1"),
        ("a,b\n1,0\n1,é\n", "line 3, round 2: expected 0 or 1"),
        ("a,b\n1,0\n1\n", "line 3: expected 2 rounds as in the first line, not 1"),
        ("user,a,b\n4711,1,0\n4712,1,0,1\n", "line 3: expected 2 rounds"),
    ],
)
def test_mistakes_in_files_are_told_without_values(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bits.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=message) as told:
        signals.read_bits(file)
    assert "4712" not in str(told.value)


def test_unreadable_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Cannot read .*: No such file"):
        signals.read_bits(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InvalidInput, match="not a CSV file in UTF-8"):
        signals.read_bits(tmp_path / "binary.csv")


def test_mistakes_are_told() -> None:
    for make, message in (
        (lambda: signals.constant(0), "rounds=0 >= 1"),
        (lambda: signals.constant(5, 1.5), "share=1.5 in"),
        (lambda: signals.sine(5, 0.8, 0.2), "low=0.8 <= high=0.2"),
        (lambda: signals.sine(5, periods=0), "periods=0 > 0"),
        (lambda: signals.step(5, at=-1), "at=-1 >= 0"),
        (lambda: signals.random_walk(5, step_std=-1), "step_std=-1 >= 0"),
        (lambda: signals.independent(5, -0.1), "low=-0.1 in"),
    ):
        with pytest.raises(InvalidInput, match=message):
            make()
