import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import command


def test_a_release_is_previewed_repeated_and_refused(desk: Any) -> None:
    planned = json.loads(desk.run("release", "--preview", "--rows", "90", "--json"))
    assert planned["numbers"] == 20
    common = ("--key", "key0.json", "--ledger", "0.db", "--json")
    again = json.loads(desk.run("release", "0.csv", "--party", "Clinic 0", *common))
    assert again["repeated"]
    assert "too much" in desk.run("release", "0.csv", "--party", "Clinic Zero", *common)
    assert "--party" in desk.run("release", "0.csv")


def test_releases_are_verified_and_explained(desk: Any) -> None:
    found = json.loads(desk.run("verify", "releases", "--study", "study.toml", "--json"))
    assert len(found) == 6
    assert all(each["valid"] and each["rows"] == 90 for each in found)
    (desk.folder / "odd").mkdir(exist_ok=True)
    (desk.folder / "odd" / "x.release").write_text("nonsense")
    told = desk.run("verify", "odd")
    assert "not a signed release" in told
    one = found[0]["address"]
    assert "per patient" in " ".join(desk.run("explain", one).split())
    assert "its signer says" in desk.run("explain", one)
    found = json.loads(desk.run("explain", one, "--json"))
    assert found["parameters"]["model"] == "moments"
    assert found["parameters_checked"] is False
    (desk.folder / "empty").mkdir(exist_ok=True)
    assert "No release" in desk.run("verify", "empty")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("release", "none.csv", "--party", "x"), "Cannot read study.toml"),
        (("verify", "nowhere", "--trust", "none.toml"), "Cannot read none.toml"),
        (("blend", "none.csv", "--releases", "x", "--party", "y"), "Cannot read study.toml"),
        (("predict", "none.json", "none.csv"), "Cannot read none.json"),
        (("trust", "add", "x", "{}"), "not a public key"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    done = command(tmp_path, *words)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.err
