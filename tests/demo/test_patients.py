from pathlib import Path

import numpy as np

from sudare.demo._patients import COLUMNS, encode, patients, study, write_patients
from sudare.foundations.randomness import seeded
from sudare.study import read_table


def test_half_fall_ill_and_rows_are_mostly_within_bounds() -> None:
    rows, ill = patients(5_000, seeded(0))
    assert rows.shape == (5_000, len(COLUMNS))
    assert 0.4 < ill.mean() < 0.6
    norms = np.linalg.norm(encode(rows), axis=1)
    assert (norms <= 1).mean() > 0.98
    assert norms.mean() > 0.6


def test_the_file_and_the_study_agree_with_the_arrays(tmp_path: Path) -> None:
    rows, ill = patients(30, seeded(1))
    write_patients(tmp_path / "c.csv", rows, ill)
    read = read_table(tmp_path / "c.csv", study())
    np.testing.assert_allclose(read.rows, encode(np.round(rows, 2)), atol=1e-12)
    assert read.targets is not None
    np.testing.assert_array_equal(read.targets > 0, ill)
