"""Several nodes in Flower's simulation engine, each with a configuration of its own."""

from pathlib import Path

import pytest

from benchmarks.peers.flower import outcome
from sudare.federation import write_app
from sudare.study import read_study
from tests.federation.engine import engine
from tests.federation.parties import agree_on_pool, hospitals, same
from tests.support.soak import times

NODES = times(6, 20)


@pytest.mark.soak(tries=f"{NODES} nodes")
def test_all_nodes_blend_as_over_a_shared_folder(tmp_path: Path) -> None:
    """Releases, and a pool of some, in one run: starting Flower takes most of the time."""
    made = hospitals(tmp_path / "nodes", NODES, cap=20.0)
    pool, others = made[:3], made[3:]
    agree_on_pool(pool, kind="logistic")
    study = read_study(made[0].folder / "study.toml")
    write_app(tmp_path / "app", study)
    place = str(tmp_path / "nodes" / "node{partition}" / "node.toml")
    with engine(tmp_path) as flower:
        wanted = f"min-nodes={NODES} pool=true also-release=true"
        said = flower.simulate(NODES, wanted, SUDARE_NODE=place)
    found = outcome(said)
    assert list(found["releases"].values()) == ["released"] * NODES
    words = [word.partition(":")[0] for word in found["pools"].values()]
    assert sorted(words) == ["pooled"] * 3 + ["refused"] * len(others)
    assert list(found["blends"].values()) == ["done"] * NODES
    assert len({each.pooled.read_bytes() for each in pool}) == 1
    for each in made:
        each.clinic.publish(study, tmp_path / "shared")
    assert [len(each.account.entries) for each in made] == [2] * 3 + [1] * len(others)
    for each in others[:2]:
        assert len(each.model.story.parties) == NODES - 1
        assert same(each.model, each.by_folder(tmp_path / "shared"))
    for each in pool:
        assert len(each.model.story.parties) == 1 + len(others)
        assert same(each.model, each.by_folder(tmp_path / "shared", each.pooled))
