"""One exchange of releases beside ten rounds of private gradients, in the same federation engine.

A deployment of Flower on loopback: a SuperLink and four SuperNodes, one for each hospital, as
processes. *sudare* is its two phases: every hospital releases its moments, verifies and blends.
*DP-FedAvg* is ten rounds of private gradient descent (federated averaging with one local step and
everyone in every round): each hospital sends the sum of its records' gradients, at most 1 long
each, with Gaussian noise of standard deviation 2√10/μ(ε, δ), so that all ten rounds together cost
each record exactly (ε, δ), what a release costs. Its step size is chosen afterwards, in its favour,
as the best of five.

- *Time*: seconds from the first question to the last answer, one run each; Flower starts a process
  for each question, on both sides. Aim: at most a third of DP-FedAvg's.
- *Accuracy*: share of correct predictions for each hospital's own test rows, a mean over hospitals
  and random splits, without the engine (which computes the same: the engine's own run is beside
  it). Aim: no worse than DP-FedAvg. *Own* is what a hospital makes of its rows alone.

Breast cancer is dealt out evenly; heart disease comes from four hospitals (left out unless the
folder in SUDARE_DATA has it). Everyone must be online ten times for one, twice for the other.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from benchmarks.consortia import Array, Consortium, Table, classification, moments
from benchmarks.consortia.gradients import ROUNDS, STEPS, gradient_descent
from benchmarks.consortia.real import studies
from benchmarks.peers.flower import Engine, outcome, running
from benchmarks.table import Row, against
from sudare.blending import HedgedBlend
from sudare.exchange import Keyring, new_key
from sudare.federation import write_app
from sudare.foundations.gaussian import gaussian_mu
from sudare.foundations.privacy import GaussianEvent, account
from sudare.foundations.randomness import secure
from sudare.ledger import Ledger
from sudare.site import load_model
from sudare.study import Study, parse_study, raw_content

ROOT = Path(__file__).parents[1]
DELTA = 1e-5
EPSILONS = (1.0, 4.0)
ENGINE_EPSILON = 4.0
HOSPITALS = 4
FIRST_SEED = 7000
MOST_TIME = 1 / 3
POLL_SECONDS = 0.5


class Deal(NamedTuple):
    """Every hospital's training and test rows."""

    train: list[Table]
    test: list[Table]

    def seen_by(self, hospital: int) -> Consortium:
        others = [table for k, table in enumerate(self.train) if k != hospital]
        X, y = self.train[hospital]
        contract = classification(X.shape[1])
        return Consortium("", contract, X, y, others, *self.test[hospital])


def run(quick: bool) -> list[Row]:
    """Accuracy over splits, then both methods once in the engine."""
    rows = []
    for name, deal in _data().items():
        steps = {}
        for epsilon in EPSILONS:
            found, steps[epsilon] = _accuracy(deal, epsilon, 2 if quick else 24)
            rows += _accuracy_rows(f"{name}, ε = {epsilon:g}", *found)
        if not quick:
            rows += _engine_rows(name, deal(0), steps[ENGINE_EPSILON])
    return rows


def noise_std(epsilon: float) -> float:
    """Noise on every gradient sum, for (ε, δ) over all rounds; confirmed by the accountant."""
    mu = gaussian_mu(epsilon, DELTA)
    rounds = [GaussianEvent(mu / np.sqrt(ROUNDS))] * ROUNDS
    assert abs(account(rounds, DELTA).epsilon() - epsilon) < 1e-6 * epsilon
    return float(2 * np.sqrt(ROUNDS) / mu)


def gradient_sum(table: Table, theta: Array) -> Array:
    """The sum of a hospital's clipped gradients: replacing a record moves it by at most 2."""
    contract = classification(table[0].shape[1])
    rows = contract.rows(table[0]) / contract.full_norm
    signs = contract.targets(table[1])
    total: Array = (-signs * expit(-signs * (rows @ theta))) @ rows
    return total


def _data() -> dict[str, Callable[[int], Deal]]:
    known = {study.name: study.deal for study in studies()}

    def cancer(seed: int) -> Deal:
        dealt = known["breast cancer over 5"](seed)
        X, y = dealt.pooled()
        parts = np.array_split(np.arange(len(y)), HOSPITALS)
        test = (dealt.test_X, dealt.test_y)
        return Deal([(X[part], y[part]) for part in parts], [test] * HOSPITALS)

    def heart(seed: int) -> Deal:
        views = [known["heart over four hospitals"](HOSPITALS * seed + k) for k in range(HOSPITALS)]
        return Deal(
            [(view.own_X, view.own_y) for view in views],
            [(view.test_X, view.test_y) for view in views],
        )

    found: dict[str, Callable[[int], Deal]] = {"breast cancer": cancer}
    if "heart over four hospitals" in known:
        found["heart disease"] = heart
    return found


def _accuracy(
    deal: Callable[[int], Deal], epsilon: float, splits: int
) -> tuple[tuple[Array, Array, Array], float]:
    """Shares correct of own model, blend and DP-FedAvg, one for each split, and the best step."""
    own, blend = np.zeros((2, splits))
    descent = np.zeros((len(STEPS), splits))
    for i in range(splits):
        seed = FIRST_SEED + i
        dealt = deal(seed)
        for k in range(HOSPITALS):
            seen = dealt.seen_by(k)
            mine = (seen.own_X, seen.own_y)
            alone = HedgedBlend([], contract=seen.contract).fit(*mine)
            mixed = HedgedBlend(moments(seen, epsilon, 10 * seed + k, DELTA)).fit(*mine)
            own[i] += alone.score(seen.test_X, seen.test_y) / HOSPITALS
            blend[i] += mixed.score(seen.test_X, seen.test_y) / HOSPITALS
        for j, step in enumerate(STEPS):
            # The same rows whoever looks; the coefficients are everyone's.
            theta = gradient_descent(dealt.seen_by(0), epsilon, seed, step, DELTA)
            descent[j, i] = _mean_share(dealt, theta)
    best = int(descent.mean(axis=1).argmax())
    return (own, blend, descent[best]), STEPS[best]


def _mean_share(dealt: Deal, theta: Array) -> float:
    shares = []
    for X, y in dealt.test:
        contract = classification(X.shape[1])
        shares.append(np.mean((contract.rows(X) @ theta > 0) == (contract.targets(y) > 0)))
    return float(np.mean(shares))


def _accuracy_rows(name: str, own: Array, blend: Array, descent: Array) -> list[Row]:
    difference = 100 * (blend - descent)
    half = 1.96 * difference.std(ddof=1) / np.sqrt(len(difference))
    return [
        Row(name=f"own, {name}", value=100 * float(own.mean()), unit="% correct"),
        Row(
            name=f"blend, {name}",
            value=100 * float(blend.mean()),
            unit="% correct",
            baseline=f"DP-FedAvg; difference {difference.mean():+.1f} ± {half:.1f}",
            baseline_value=100 * float(descent.mean()),
            aim="no worse",
            ok=bool(difference.mean() + half >= 0),
        ),
    ]


def _engine_rows(name: str, dealt: Deal, step: float) -> list[Row]:
    """Both methods, one after the other, on the same four nodes."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_app(folder / "app", _write_hospitals(folder, dealt))
        _write_rounds(folder / "rounds", dealt, step)
        nodes = [
            {
                "SUDARE_NODE": str(folder / f"{k}.toml"),
                "SUDARE_BENCHMARK": str(folder / f"{k}.npz"),
            }
            for k in range(HOSPITALS)
        ]
        with running(folder) as flower:
            flower.deploy(nodes, PYTHONPATH=str(ROOT))
            ours, rounds = (_outcome(flower, app) for app in ("app", "rounds"))
        assert list(ours["blends"].values()) == ["done"] * HOSPITALS
        models = [load_model(folder / f"model{k}.json") for k in range(HOSPITALS)]
    shares = [
        np.mean((model.probabilities(X) > 0.5) == (y > 0))
        for model, (X, y) in zip(models, dealt.test, strict=True)
    ]
    return [
        against(
            f"time in the engine, {name}",
            ours["seconds"],
            "s",
            "DP-FedAvg",
            rounds["seconds"],
            f"<= {MOST_TIME:.3f}",
        ),
        Row(
            name=f"the engine's own run, {name}, ε = {ENGINE_EPSILON:g}",
            value=100 * float(np.mean(shares)),
            unit="% correct",
            baseline="DP-FedAvg",
            baseline_value=100 * _mean_share(dealt, np.array(rounds["theta"])),
        ),
    ]


def _outcome(flower: Engine, app: str) -> dict[str, Any]:
    settings = f"min-nodes={HOSPITALS} wait-seconds=300.0"
    run = ["run", app, "here", "--stream", "--run-config", settings]
    return outcome(flower.flwr(run, seconds=1800))


def _write_rounds(folder: Path, dealt: Deal, step: float) -> None:
    """DP-FedAvg as an app, with its code from this module, and the hospitals' rows."""
    features = dealt.train[0][0].shape[1]
    write_app(folder, parse_study(_study_text(features)))
    (package,) = filter(Path.is_dir, folder.iterdir())
    for part in ("client", "server"):
        source = f"from benchmarks.federation import {part}_app\n\napp = {part}_app()\n"
        (package / f"{part}_app.py").write_text(source)
    for k, (X, y) in enumerate(dealt.train):
        np.savez(folder.parent / f"{k}.npz", X=X, y=y)
    settings = {
        "step": step,
        "noise": noise_std(ENGINE_EPSILON),
        "rows": sum(len(y) for _, y in dealt.train),
        "dimension": features + 1,
    }
    lines = [f"{name} = {value}\n" for name, value in settings.items()]
    with (folder / "pyproject.toml").open("a") as project:
        project.writelines(lines)


def client_app() -> Any:
    """A hospital of DP-FedAvg, for the engine."""
    from flwr.app import ArrayRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    def gradient(message: Any, context: Any) -> Any:
        with np.load(os.environ["SUDARE_BENCHMARK"]) as table:
            theta = message.content["theta"].to_numpy_ndarrays()[0]
            total = gradient_sum((table["X"], table["y"]), theta)
        total += context.run_config["noise"] * secure().standard_normal(total.shape)
        return Message(RecordDict({"sum": ArrayRecord([total])}), reply_to=message)

    app.train()(gradient)
    return app


def server_app() -> Any:
    """The server of DP-FedAvg, for the engine."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Any, context: Any) -> None:
        config = context.run_config
        while len(nodes := list(grid.get_node_ids())) < HOSPITALS:
            time.sleep(0.2)
        begun = time.monotonic()
        theta: Array = np.zeros(config["dimension"])
        for _ in range(ROUNDS):
            theta -= config["step"] / config["rows"] * _asked(grid, nodes, theta)
        seconds = time.monotonic() - begun
        print(f"outcome {json.dumps({'seconds': seconds, 'theta': theta.tolist()})}", flush=True)

    app.main()(main)
    return app


def _asked(grid: Any, nodes: list[int], theta: Array) -> Array:
    """All hospitals' noisy sums of gradients at θ, added up; polled as often as sudare does."""
    from flwr.app import ArrayRecord, Message, RecordDict

    content = RecordDict({"theta": ArrayRecord([theta])})
    messages = [Message(content, dst_node_id=node, message_type="train") for node in nodes]
    waiting, total = set(grid.push_messages(messages)), np.zeros_like(theta)
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            waiting.discard(reply.metadata.reply_to_message_id)
            total += reply.content["sum"].to_numpy_ndarrays()[0]
        if waiting:
            time.sleep(POLL_SECONDS)
    return total


def _write_hospitals(folder: Path, dealt: Deal) -> Study:
    """Data, keys, ledgers and configurations of all nodes, and their study."""
    text = _study_text(dealt.train[0][0].shape[1])
    (folder / "study.toml").write_text(text)
    ring = Keyring()
    for k, (X, y) in enumerate(dealt.train):
        names = [f"c{j}" for j in range(X.shape[1])]
        lines = [",".join([*names, "y"])]
        lines += [
            ",".join([*map(repr, row), str(label)])
            for row, label in zip(X.tolist(), y.tolist(), strict=True)
        ]
        (folder / f"{k}.csv").write_text("\n".join(lines) + "\n")
        key = new_key()
        key.save(folder / f"key{k}.json")
        ring = ring.with_key(f"Hospital {k}", key.public)
        with Ledger(folder / f"ledger{k}.db") as ledger:
            fingerprint = ledger.fingerprint(raw_content(folder / f"{k}.csv"))
            ledger.open("rows", fingerprint, ENGINE_EPSILON, DELTA)
        (folder / f"{k}.toml").write_text(
            f'party = "Hospital {k}"\ndata = "{k}.csv"\nledger = "ledger{k}.db"\n'
            f'key = "key{k}.json"\nreleases = "releases{k}"\nmodel = "model{k}.json"\n'
            f'log = "{k}.log"\n[policy]\nanswer_seconds = 0\n'
        )
    (folder / "trust.toml").write_text(ring.to_toml())
    return parse_study(text)


def _study_text(features: int) -> str:
    """Rows arrive scaled, and are taken as they are: scale·√features = 1."""
    column = f"low = -1\nhigh = 1\nscale = {features**-0.5!r}\n"
    columns = "".join(f"[columns.c{j}]\n{column}" for j in range(features))
    return (
        f"name = 'benchmark'\n{columns}[target]\ncolumn = 'y'\nclasses = [0, 1]\n"
        f"[privacy]\nepsilon = {ENGINE_EPSILON}\ndelta = {DELTA}\n"
    )
