"""What `init` writes is what the engine and the nodes read."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from sudare.federation import Policy, Settings, read_node, write_app, write_node
from sudare.federation._messages import terms_of
from sudare.federation._serving import settings_from
from sudare.foundations.checks import InvalidInput
from tests.site.clinics import classes


def test_the_app_asks_under_the_studys_terms(tmp_path: Path) -> None:
    write_app(tmp_path / "app", classes())
    project = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    app = project["tool"]["flwr"]["app"]
    assert settings_from(app["config"]) == (terms_of(classes()), Settings())
    for part in ("serverapp", "clientapp"):
        module, name = app["components"][part].split(":")
        path = tmp_path / "app" / (module.replace(".", "/") + ".py")
        assert f"{name} = " in path.read_text()
    sources = [path.read_text() for path in (tmp_path / "app").rglob("*.py")]
    # The whole of the code that travels: all the rest is installed at the node.
    assert sum(text.count("import") for text in sources) == 2


def test_an_app_can_carry_a_pool(tmp_path: Path) -> None:
    write_app(tmp_path / "app", classes(), pool=True)
    project = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"]
    assert settings_from(config)[1] == Settings(pool=True)
    assert settings_from(config | {"also-release": True})[1].also_release
    write_node(tmp_path / "node.toml", "A", "rows.csv", pool="pool.toml")
    assert read_node(tmp_path / "node.toml").pool == str(tmp_path / "pool.toml")


def test_a_name_of_any_letters_makes_a_package(tmp_path: Path) -> None:
    study = msgspec.structs.replace(classes(), name='Ünï "herz" 2026 ' + "x" * 90)
    write_app(tmp_path / "app", study)
    project = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    (package,) = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert package.isidentifier()
    assert project["tool"]["flwr"]["app"]["config"]["name"] == study.name


def test_a_node_begins_with_the_defaults(tmp_path: Path) -> None:
    write_node(tmp_path / "node.toml", 'A "quoted" name', "rows.csv")
    node = read_node(tmp_path / "node.toml")
    assert node.party == 'A "quoted" name'
    assert node.data == str(tmp_path / "rows.csv")
    assert node.policy == Policy()
    assert node.pool == ""


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write_node(tmp_path / "node.toml", "A", "a.csv")
    before = (tmp_path / "node.toml").read_text()
    with pytest.raises(InvalidInput, match="exists"):
        write_node(tmp_path / "node.toml", "B", "b.csv")
    assert (tmp_path / "node.toml").read_text() == before
    write_app(tmp_path / "app", classes())
    with pytest.raises(InvalidInput, match="exists"):
        write_app(tmp_path / "app", classes())


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="Cannot write"):
        write_app(tmp_path / "file" / "app", classes())
