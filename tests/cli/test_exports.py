import csv
import json
import subprocess
import sys
from typing import Any

from sudare.site import load_model
from tests.support.commands import command

OWN = ("--key", "key0.json")


def test_a_model_is_handed_on(desk: Any) -> None:
    words = ("--releases", "releases", "--party", "Clinic 0", *OWN, "--out", "given.json")
    desk.run("blend", "0.csv", *words)
    told = desk.run("export", "given.json")
    assert "Wrote given.csv" in told
    assert "keep it inside" in told
    with (desk.folder / "given.csv").open() as file:
        lines = list(csv.DictReader(file))
    made = load_model(desk.folder / "given.json")
    assert len({line["component"] for line in lines}) == len(made.components)
    said = json.loads(desk.run("export", "given.json", "--out", "given.onnx", "--json"))
    assert said == {
        "file": "given.onnx", "format": "onnx", "components": len(made.components),
    }  # fmt: skip
    assert (desk.folder / "given.onnx").stat().st_size > 1000
    done = command(desk.folder, "export", "given.json", "--out", "given.pmml")
    assert done.code == 2
    assert "csv or onnx" in done.err
    assert not (desk.folder / "given.pmml").exists()


def test_a_graph_without_its_library_says_what_to_install(desk: Any) -> None:
    words = ("--releases", "releases", "--party", "Clinic 0", *OWN, "--out", "graph.json")
    desk.run("blend", "0.csv", *words)
    code = (
        "import sys; sys.modules['onnx'] = None; sys.argv = ['sudare', 'export', 'graph.json', "
        "'--out', 'graph.onnx']; from sudare.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=desk.folder, check=False
    )
    assert done.returncode == 2
    assert "pip install 'sudare[export]'" in " ".join(done.stderr.split())
    assert not (desk.folder / "graph.onnx").exists()
