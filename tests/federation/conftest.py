"""What holds for every test of federations."""

import pytest

from sudare.pooling._plan import SPLITS


@pytest.fixture(autouse=True)
def five_gradient_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of thirty, which take the same way six times; `tests/site` has them all."""
    monkeypatch.setitem(SPLITS, "gradients", (0.2,) * 5)
