"""The metric: its sensitivity, its noise, its price, and how often it is told."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from sudare import site
from sudare.blending import receive
from sudare.exchange import load_key, load_keyring
from sudare.federation import BlendQuestion, Metric, read_node
from sudare.federation._metrics import _STEPS, _steps, tell_metric
from sudare.foundations import exact
from sudare.foundations.checks import PrivacyError
from sudare.foundations.privacy import PureEvent
from sudare.ledger import Ledger
from sudare.study import Block, raw_content, read_every_row, read_study, read_table
from tests.federation.parties import Hospital, agreed, hospitals
from tests.site.clinics import NUMBERS, numbers, write_stays

STAYS = NUMBERS.format(model="moments", more="")


class Silent:
    """Noise of none, to see what it would be added to."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def add_noise(self, steps: list[int]) -> list[int]:
        return steps

    def loss(self, sensitivity: float) -> float:
        return sensitivity / self.scale


@pytest.fixture
def three(tmp_path: Path) -> list[Hospital]:
    made = hospitals(tmp_path, 3, cap=20.0)
    share(made)
    return made


def share(made: list[Hospital]) -> None:
    """The others' releases in the first one's folder."""
    study = read_study(made[0].folder / "study.toml")
    for each in made[1:]:
        each.clinic.publish(study, made[0].folder / "releases")


def told(hospital: Hospital, *without: str) -> Metric | None:
    node = read_node(hospital.configuration)
    study = read_study(node.study)
    checked = site.collect([node.releases], load_keyring(node.trust), study)
    some = [each for each in checked if each.trusted and each.trusted.signer not in without]
    return tell_metric(study, some, node, load_key(node.key))


def theta_of(hospital: Hospital) -> Any:
    node = read_node(hospital.configuration)
    study = read_study(node.study)
    checked = site.collect([node.releases], load_keyring(node.trust), study)
    releases = [each.trusted.release for each in checked if each.trusted is not None]
    return receive(releases, study.contract).as_learners().coefficients.mean(axis=0)


def test_classes_count_what_the_average_gets_wrong(
    three: list[Hospital], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "laplace", Silent)
    three[0].policy(metric_epsilon=0.5)
    study, theta = read_study(three[0].folder / "study.toml"), theta_of(three[0])
    block = read_table(three[0].clinic.data, study)
    assert block.targets is not None
    wrong = 0
    for row, target in zip(study.contract.rows(block.rows), block.targets, strict=True):
        wrong += (sum(a * b for a, b in zip(row, theta, strict=True)) > 0) != (target > 0)
    found = told(three[0])
    assert found is not None
    assert found.value == pytest.approx(wrong / 24, rel=1e-12)
    assert found.noise_std == pytest.approx(np.sqrt(2) / (0.5 * 24))


def test_numbers_tell_the_squared_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = hospitals(tmp_path, 2, study=STAYS)
    for seed, each in enumerate(made):
        write_stays(each.clinic.data, 40, seed)
        with Ledger(each.clinic.ledger) as ledger:
            ledger.open("stays", ledger.fingerprint(raw_content(each.clinic.data)), 9.0, 1e-6)
    share(made)
    monkeypatch.setattr(exact, "laplace", Silent)
    made[0].policy(metric_epsilon=0.5)
    study, theta = numbers(), theta_of(made[0])
    block = read_table(made[0].clinic.data, study)
    scores = np.clip(study.contract.rows(block.rows) @ theta, -1, 1)
    found = told(made[0])
    assert found is not None
    assert found.measure == "squared error"
    assert found.value == pytest.approx(((scores - block.targets) ** 2).mean(), abs=1e-5)


@pytest.mark.parametrize("text", [STAYS, None])
def test_one_row_moves_the_count_by_one_step_at_most(tmp_path: Path, text: str | None) -> None:
    study = numbers() if text else read_study(hospitals(tmp_path, 1)[0].folder / "study.toml")
    width = len(study.features)
    rng = np.random.default_rng(0)
    corners = np.vstack([np.eye(width), -np.eye(width), np.zeros(width)]) / np.sqrt(width)
    moves = []
    for size in (0.1, 1.0, 30.0):
        theta = size * rng.standard_normal(study.contract.dimension)
        rows = rng.choice(corners, 5)
        targets = rng.choice([-1.0, 1.0], 5)
        counts = []
        for row in corners:
            for target in (-1.0, 1.0):
                rows[2], targets[2] = row, target
                counts.append(_steps(study, Block(rows, targets), theta))
        moves.append(max(counts) - min(counts))
    assert max(moves) <= _STEPS
    # For classes it is reached: nine tenths of the noise would not do.
    assert max(moves) > 0.9 * _STEPS


def test_noise_and_price_belong_together(
    three: list[Hospital], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, real = [], exact.laplace

    def watched(scale: float) -> exact.Sampler:
        made.append(scale)
        return real(scale)

    monkeypatch.setattr(exact, "laplace", watched)
    three[0].policy(metric_epsilon=0.3)
    assert told(three[0]) is not None
    assert _STEPS / 0.3 <= made[0] <= _STEPS / 0.3 * (1 + 1e-9)
    (entry,) = three[0].account.entries
    assert entry.event == PureEvent(0.3, unit="patient")
    assert entry.purpose == "metric for study hearts"


def test_a_metric_is_repeated_and_never_told_more_often_than_allowed(
    three: list[Hospital],
) -> None:
    first = three[0]
    first.policy(metric_epsilon=0.5, metric_times=2)
    both, one = told(first), told(first, "Hospital 1")
    assert both is not None
    assert one is not None
    assert both != one
    assert told(first, "Hospital 2") is None
    assert (told(first), told(first, "Hospital 1")) == (both, one)
    assert len(first.account.entries) == 2
    question = BlendQuestion(terms=agreed(first), releases=())
    assert first.ask(question).metric == both


def test_without_releases_of_others_nothing_is_told(tmp_path: Path) -> None:
    (alone,) = hospitals(tmp_path, 1)
    alone.policy(metric_epsilon=0.5)
    alone.clinic.publish(read_study(alone.folder / "study.toml"), alone.folder / "releases")
    assert told(alone) is None
    assert len(alone.account.entries) == 1


def test_data_without_a_budget_or_that_change_are_not_measured(
    three: list[Hospital], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = three[0]
    first.policy(metric_epsilon=0.5)
    data = first.clinic.data
    text = data.read_text()

    def swapped(*given: Any) -> Any:
        data.write_text(text + "100,50,m,yes,x\n")
        return read_every_row(*given)

    with monkeypatch.context() as patched:
        patched.setattr("sudare.federation._metrics.read_every_row", swapped)
        with pytest.raises(PrivacyError, match="changed while they were read"):
            told(first)
    with pytest.raises(PrivacyError, match="no budget"):
        told(first)
    data.write_text(text)
    assert first.account.entries == ()


def test_a_crash_between_charge_and_telling_is_charged_once(
    three: list[Hospital], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = three[0]
    first.policy(metric_epsilon=0.5)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "keep", crash)
        with pytest.raises(KeyboardInterrupt):
            told(first)
    assert [entry.released for entry in first.account.entries] == [False]
    assert told(first) is not None
    assert [entry.released for entry in first.account.entries] == [True]


def test_what_is_kept_reads_back(three: list[Hospital]) -> None:
    three[0].policy(metric_epsilon=0.5)
    found = told(three[0])
    assert found is not None
    assert msgspec.json.decode(msgspec.json.encode(found), type=Metric) == found
