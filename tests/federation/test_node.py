"""A node's configuration: where it is found, what it may say, what is refused."""

from pathlib import Path

import pytest

from sudare.federation import Policy, find_node, read_node
from sudare.federation._node import NODE_VARIABLE, OPTION
from sudare.foundations.checks import InvalidInput


def written(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text('party = "A"\ndata = "a.csv"\n' + text)
    return path


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, 'ledger = "postgresql://db/x"\nreleases = "s3://b/c"\nkey = "/k.json"\n')
    monkeypatch.chdir(tmp_path.parent)
    node = read_node(Path(tmp_path.name) / "node.toml")
    assert node.data == str(tmp_path / "a.csv")
    assert node.model == str(tmp_path / "model.json")
    assert (node.ledger, node.releases) == ("postgresql://db/x", "s3://b/c")
    assert node.key == "/k.json"
    assert node.pool == ""
    assert read_node(written(tmp_path, 'pool = "pool.toml"\n')).pool == str(tmp_path / "pool.toml")
    assert node.policy == Policy()


def test_defaults_say_done_and_nothing_else() -> None:
    policy = Policy()
    assert policy.metric_epsilon == 0
    assert policy.answer_seconds > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[policy]\nanswer_seconds = -1", "answer_seconds"),
        ("[policy]\nanswer_seconds = 4000", "hour"),
        ("[policy]\nanswer_seconds = nan", "answer_seconds"),
        ("[policy]\nmetric_epsilon = inf", "metric_epsilon"),
        ("[policy]\nmetric_times = -1", "metric_times"),
        ("[policy]\nmetric_times = 10000", "metric_times"),
        ("[policy]\nepsilon = 3", "epsilon"),
        ("server = 'x'", "server"),
        ("study = 3", "study"),
        ("[policy", "node.toml is not"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_node(written(tmp_path, text))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Cannot read"):
        read_node(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_node(tmp_path / "bytes.toml")
    (tmp_path / "odd.toml").write_text('party = " "\ndata = "a.csv"\n')
    with pytest.raises(InvalidInput, match="printable name"):
        read_node(tmp_path / "odd.toml")


def test_a_node_is_found_by_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NODE_VARIABLE, raising=False)
    for options in ({}, {"path": "x"}, {OPTION: ""}, {OPTION: 3}):
        with pytest.raises(InvalidInput, match=NODE_VARIABLE):
            find_node(options)
    monkeypatch.setenv(NODE_VARIABLE, "by-environment.toml")
    assert find_node() == Path("by-environment.toml")
    assert find_node({OPTION: "by-option.toml"}) == Path("by-option.toml")


def test_simulated_nodes_have_a_file_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NODE_VARIABLE, "nodes/{partition}.toml")
    assert find_node({"partition-id": 7}) == Path("nodes/7.toml")
