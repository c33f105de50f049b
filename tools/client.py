"""The browser's client as a package for npm: `python -m tools.client` writes `deploy/npm` anew."""

import base64
import hashlib
import json
import re
from pathlib import Path

from sudare import __version__
from sudare.collector._static import client_module

FOLDER = Path(__file__).parents[1] / "deploy" / "npm"


def main() -> None:
    module = client_module()
    (FOLDER / "client.js").write_bytes(module)
    digest = base64.b64encode(hashlib.sha384(module).digest()).decode()
    read_me = FOLDER / "README.md"
    read_me.write_text(re.sub(r"sha384-[\w+/=]*", f"sha384-{digest}", read_me.read_text()))
    package = json.loads((FOLDER / "package.json").read_text()) | {"version": __version__}
    (FOLDER / "package.json").write_text(json.dumps(package, indent=2) + "\n")


if __name__ == "__main__":
    main()
