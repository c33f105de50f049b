"""Several nodes in Flower's simulation engine, each with a configuration of its own."""

from pathlib import Path

import pytest

from benchmarks.peers.flower import outcome
from sudare.federation import write_app
from sudare.study import read_study
from tests.federation.engine import engine
from tests.federation.parties import hospitals, same
from tests.support.soak import times

NODES = times(6, 20)


@pytest.mark.soak
def test_all_nodes_blend_as_over_a_shared_folder(tmp_path: Path) -> None:
    made = hospitals(tmp_path / "nodes", NODES)
    study = read_study(made[0].folder / "study.toml")
    write_app(tmp_path / "app", study)
    place = str(tmp_path / "nodes" / "node{partition}" / "node.toml")
    with engine(tmp_path) as flower:
        said = flower.simulate(NODES, f"min-nodes={NODES}", SUDARE_NODE=place)
    found = outcome(said)
    assert list(found["releases"].values()) == ["released"] * NODES
    assert list(found["blends"].values()) == ["done"] * NODES
    for each in made:
        each.clinic.publish(study, tmp_path / "shared")
        assert len(each.account.entries) == 1
    for each in made[:4]:
        assert len(each.model.story.parties) == NODES - 1
        assert same(each.model, each.by_folder(tmp_path / "shared"))
