"""A real deployment: a SuperLink and SuperNodes on loopback, with TLS and registered keys.

`make soak` runs it; `make test` starts Flower once, for test_flower_simulation.py. Two runs show
all of it, in one test, as starting Flower takes most of the time. The first carries a pool; of
three hospitals one is ended while it joins, and started again. In the second, one is killed
while it makes its release and one while it blends. A fourth node, whose key nobody registered,
tries to join.
"""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.flower import READY, Engine, answers, free_port, outcome
from sudare.federation import write_app
from sudare.study import read_study
from tests.federation.certificates import write_certificates, write_node_key
from tests.federation.engine import engine
from tests.federation.parties import Hospital, agree_on_pool, hospitals, same

UNREGISTERED = "Exit Code: 305"
SETTINGS = "min-nodes=3 wait-seconds=120.0 phase-seconds=120.0 grace-seconds=12.0"


@dataclass
class Seen:
    """What the run left."""

    hospitals: list[Hospital]
    pooled: dict[str, Any]
    """The outcome of the run with a pool."""
    sums: set[bytes]
    """What its nodes had in the end."""
    outcome: dict[str, Any]
    stranger: str
    """The words of the node that nobody knows."""


class Trap:
    """A pipe in place of a file: whoever reads it waits, and the test sees it waiting."""

    def __init__(self, path: Path) -> None:
        self.path, self.content = path, path.read_bytes()
        path.unlink()
        os.mkfifo(path)

    def sprung(self) -> bool:
        with suppress(OSError):  # as long as nobody reads
            # Kept open: the reader would see an end otherwise.
            os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            return True
        return False

    def lift(self) -> None:
        """The file again."""
        self.path.unlink()
        self.path.write_bytes(self.content)


def supernode(flower: Engine, name: str, hospital: Hospital, *words: str) -> Any:
    return flower.start(
        name,
        "flower-supernode",
        "--root-certificates", "ca.crt",
        "--superlink", f"127.0.0.1:{flower.port}",
        "--auth-supernode-private-key", f"{name}.key",
        "--host", "127.0.0.1",
        "--port", str(free_port()),
        *words,
        SUDARE_NODE=str(hospital.configuration),
    )  # fmt: skip


def deployed(folder: Path) -> Seen:
    """The deployment, one run, and the end of it."""
    made = hospitals(folder / "nodes", 3, cap=20.0)
    agree_on_pool(made, kind="logistic")
    names = [f"node{k}" for k in range(3)]
    sums = set()
    write_app(folder / "app", read_study(made[0].folder / "study.toml"))
    write_certificates(folder)
    for name in (*names, "stranger"):
        write_node_key(folder / f"{name}.key")
    with engine(folder) as flower:
        flower.connect(**{"root-certificates": str(folder / "ca.crt")})
        flower.start(
            "superlink",
            "flower-superlink",
            "--ssl-ca-certfile", "ca.crt",
            "--ssl-certfile", "server.crt",
            "--ssl-keyfile", "server.key",
            "--enable-supernode-auth",
            "--host", "127.0.0.1",
            "--port", str(flower.port),
        )  # fmt: skip
        flower.wait_for(lambda: answers(flower.port))
        flower.flwr(*(["supernode", "register", f"{name}.pub", "here"] for name in names))
        nodes = [supernode(flower, name, each) for name, each in zip(names, made, strict=True)]
        # One thing after another: Flower gives its own processes half a minute to start.
        flower.wait_for(lambda: all(READY in flower.said(name) for name in names), 150)
        stranger = supernode(flower, "stranger", made[0], "--isolation", "process")
        flower.wait_for(lambda: stranger.poll() is not None, 150)
        joining = Trap(made[2].folder / "pool.toml")
        settings = f"{SETTINGS} pool=true"
        run = flower.later(["run", "app", "here", "--stream", "--run-config", settings])
        flower.wait_for(joining.sprung, 150)
        # A node that is killed counts as connected for minutes; one that is ended signs off.
        nodes[2].terminate()
        nodes[2].wait(timeout=60)
        joining.lift()
        nodes[2] = supernode(flower, names[2], made[2])
        pooled = outcome(run())
        (made[1].folder / "model.json").unlink()
        for each in made:  # the second run is about releases: rows of a pool do not count again
            sums.add(each.pooled.read_bytes())
            shutil.rmtree(each.pool.folder)
        # The study is read first of all, the keyring only for blending.
        releasing, blending = (
            Trap(made[2].folder / "study.toml"),
            Trap(made[1].folder / "trust.toml"),
        )
        run = flower.later(["run", "app", "here", "--stream", "--run-config", SETTINGS])
        flower.wait_for(releasing.sprung, 150)
        flower.kill(nodes[2])
        flower.wait_for(blending.sprung, 150)
        flower.kill(nodes[1])
        said = run()
        return Seen(made, pooled, sums, outcome(said), flower.said("stranger"))


@pytest.mark.soak(only=True, tries="a deployment with TLS")
def test_a_deployment_survives_killed_nodes_and_turns_strangers_away(tmp_path: Path) -> None:
    seen = deployed(tmp_path)
    a_node_ended_while_it_joins_a_pool_is_asked_again(seen)
    a_node_killed_in_phase_1_does_not_stop_the_others(seen)
    a_node_killed_in_phase_2_does_not_stop_the_others(seen)
    a_node_whose_key_is_not_registered_is_turned_away(seen)
    the_blend_equals_that_of_a_shared_folder(seen, tmp_path / "shared")
    the_server_is_told_one_word_by_each(seen)


def a_node_ended_while_it_joins_a_pool_is_asked_again(seen: Seen) -> None:
    assert list(seen.pooled["pools"].values()) == ["pooled"] * 3
    assert list(seen.pooled["blends"].values()) == ["done"] * 3
    assert seen.pooled["releases"] == {}
    assert len(seen.sums) == 1


def a_node_killed_in_phase_1_does_not_stop_the_others(seen: Seen) -> None:
    assert sorted(seen.outcome["releases"].values()) == ["no answer", "released", "released"]
    # The pool, and a release.
    assert [len(each.account.entries) for each in seen.hospitals] == [2, 2, 1]


def a_node_killed_in_phase_2_does_not_stop_the_others(seen: Seen) -> None:
    assert list(seen.outcome["blends"].values()).count("done") == 1
    assert not (seen.hospitals[1].folder / "model.json").exists()
    first = seen.hospitals[0].model
    assert [party.signer for party in first.story.parties] == ["Hospital 1"]


def a_node_whose_key_is_not_registered_is_turned_away(seen: Seen) -> None:
    assert UNREGISTERED in seen.stranger
    assert "Failed to activate" in seen.stranger
    assert len(seen.outcome["releases"]) == 3


def the_blend_equals_that_of_a_shared_folder(seen: Seen, shared: Path) -> None:
    study = read_study(seen.hospitals[0].folder / "study.toml")
    for each in seen.hospitals[:2]:
        assert each.clinic.publish(study, shared).repeated
    assert same(seen.hospitals[0].model, seen.hospitals[0].by_folder(shared))


def the_server_is_told_one_word_by_each(seen: Seen) -> None:
    told = {*seen.outcome["releases"].values(), *seen.outcome["blends"].values()}
    assert told == {"released", "done", "no answer"}
    assert seen.outcome["metrics"] == {}
