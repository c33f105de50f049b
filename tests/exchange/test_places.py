import functools
import os
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractFileSystem
from hypothesis import given
from hypothesis import strategies as st

from sudare.exchange import exists, file_name, get_all, put, subfolders
from sudare.exchange._envelope import LARGEST_RELEASE
from sudare.exchange._places import _system
from sudare.foundations.checks import SudareError
from tests.support.disks import full_after


class Shelf(SimpleHTTPRequestHandler):
    """A web server that lists folders, takes files, and can fail."""

    def log_message(self, *_: Any) -> None:
        pass

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if "forbidden" in self.path:
            self.send_error(403)
            return
        Path(self.translate_path(self.path)).write_bytes(data)
        self.send_response(201)
        self.end_headers()

    def do_GET(self) -> None:
        if "broken" in self.path:
            self.send_error(500)
        else:
            super().do_GET()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("aiohttp", reason="fsspec reads http with aiohttp")
    (tmp_path / "shared").mkdir()
    handler = functools.partial(Shelf, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/shared"
        server.shutdown()


@pytest.fixture(params=["folder", "file address", "memory", "web"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "folder":
            return str(tmp_path / "shared [1] *?")
        case "file address":
            return f"file://{tmp_path}/shared"
        case "memory":
            return f"memory://{tmp_path.name}/shared"
        case _:
            address: str = request.getfixturevalue("web")
            return address


def test_what_is_put_is_got(place: str) -> None:
    addresses = [put(place, f"{name}.release", name.encode()) for name in "bca"]
    put(place, "notes.txt", b"no release")
    assert [data for _, data in get_all(place)] == [b"a", b"b", b"c"]
    for address, data in zip(addresses, (b"b", b"c", b"a"), strict=True):
        assert [found for _, found in get_all(address)] == [data]
    put(place, "b.release", b"other")
    assert [data for _, data in get_all(place)] == [b"a", b"other", b"c"]


def test_a_huge_file_is_cut_off(place: str, tmp_path: Path) -> None:
    shelf = str(tmp_path / "shared") if place.startswith("http") else place
    put(shelf, "huge.release", b"x" * (LARGEST_RELEASE + 1000))
    assert [len(data) for _, data in get_all(place)] == [LARGEST_RELEASE + 1]


def test_nowhere_is_explained(tmp_path: Path) -> None:
    for nowhere in (str(tmp_path / "nowhere"), "memory://nowhere", str(tmp_path / "x.release")):
        with pytest.raises(SudareError, match=r"nowhere|x\.release.*no such file or folder"):
            list(get_all(nowhere))
    for strange in ("nonsense://place", "s3://bucket/folder"):
        for attempt in (lambda s=strange: list(get_all(s)), lambda s=strange: put(s, "a", b"")):
            with pytest.raises(SudareError, match=strange) as problem:
                attempt()
            assert problem.value.__suppress_context__


def test_an_empty_folder_holds_nothing(tmp_path: Path) -> None:
    assert list(get_all(str(tmp_path))) == []


def test_a_web_server_that_fails_is_explained(web: str) -> None:
    with pytest.raises(SudareError, match="403"):
        put(f"{web}/forbidden", "a.release", b"x")
    for address in (
        f"{web}/broken",
        f"{web}/broken.release",
        f"{web}/none",
        "http://127.0.0.1:9/x",
    ):
        with pytest.raises(SudareError, match=r"http://127\.0\.0\.1"):
            list(get_all(address))


def test_what_only_looks_like_a_release_is_left_alone(tmp_path: Path) -> None:
    """A pipe would be waited for, a folder cannot be read."""
    put(str(tmp_path), "a.release", b"a")
    os.mkfifo(tmp_path / "b.release")
    (tmp_path / "c.release").mkdir()
    (tmp_path / "d.release").symlink_to(tmp_path / "nowhere")
    (tmp_path / ".e.release.part").write_bytes(b"half")
    assert list(get_all(str(tmp_path))) == [(str(tmp_path / "a.release"), b"a")]


def test_a_file_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.release").write_bytes(b"one")
    (tmp_path / "b.release").symlink_to("/proc/self/mem")
    found = {Path(address).name: data for address, data in get_all(str(tmp_path))}
    assert found["a.release"] == b"one"
    assert found.get("b.release", b"") == b""


@pytest.mark.parametrize("address", ["{}", "file://{}"])
def test_a_full_disk_leaves_no_half_file(tmp_path: Path, address: str) -> None:
    shared = tmp_path / "shared"
    with full_after(1000), pytest.raises(SudareError, match=r"a\.release"):
        put(address.format(shared), "a.release", b"x" * 5000)
    assert list(shared.iterdir()) == []
    put(address.format(shared), "a.release", b"old")
    with full_after(1000), pytest.raises(SudareError):
        put(address.format(shared), "a.release", b"x" * 5000)
    assert [(p.name, p.read_bytes()) for p in shared.iterdir()] == [("a.release", b"old")]


def test_others_can_read_what_was_put(tmp_path: Path) -> None:
    address = put(str(tmp_path / "shared"), "a.release", b"x")
    assert Path(address).stat().st_mode & 0o777 == 0o644


def test_a_file_in_the_way_is_explained(tmp_path: Path) -> None:
    (tmp_path / "shared").touch()
    with pytest.raises(SudareError, match="shared"):
        put(str(tmp_path / "shared"), "a.release", b"x")


@given(st.text(max_size=100), st.binary(max_size=10))
def test_a_file_name_stays_in_its_folder(party: str, data: bytes) -> None:
    name = file_name(party, data)
    assert Path("/shared", name).resolve().parent == Path("/shared")
    assert name.isascii()
    assert name.isprintable()
    assert not name.startswith((".", "-"))
    assert name.endswith(".release")
    assert len(name) <= 90
    assert not set(name) & set(" /\\:*?\"<>|'`$&;()[]{}~#%")


@pytest.mark.parametrize("party", ["../../etc/passwd", "..", "/", "a/../b", "-rf", "\x00", "~", ""])
def test_a_party_cannot_choose_where_its_release_goes(party: str, tmp_path: Path) -> None:
    address = put(str(tmp_path / "shared"), file_name(party, b"x"), b"x")
    assert [str(p) for p in tmp_path.rglob("*") if p.is_file()] == [address]
    assert Path(address).parent == tmp_path / "shared"


def test_different_releases_have_different_names() -> None:
    assert file_name("Clinic A", b"a") != file_name("Clinic A", b"b")
    assert file_name("Clinic A", b"a") == file_name("Clinic A", b"a")
    assert file_name("Clinic A", b"a").startswith("Clinic-A-")


def test_long_names_are_cut() -> None:
    assert file_name("a" * 100, b"x").split("-")[0] == "a" * 60


def test_folders_are_made_on_the_way(tmp_path: Path) -> None:
    address = put(str(tmp_path / "a" / "b" / "c"), "x.release", b"x")
    assert Path(address).read_bytes() == b"x"


class Listed(MemoryFileSystem):  # type: ignore[misc]
    """Remembers what it once listed, as systems behind a network do."""

    protocol = "listed"
    seen: ClassVar[dict[str, Any]] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:
        return super()._strip_protocol(path.replace("listed://", "memory://"))

    def ls(self, path: str, detail: bool = True, **more: Any) -> Any:
        return self.seen.setdefault(f"{path} {detail}", super().ls(path, detail, **more))

    def invalidate_cache(self, path: str | None = None) -> None:
        self.seen.clear()


def test_what_a_place_remembers_is_not_asked() -> None:
    fsspec.register_implementation("listed", Listed, clobber=True)
    put("memory://listed", "a.release", b"a")
    assert len(list(get_all("listed://listed"))) == 1
    put("memory://listed", "b.release", b"b")
    assert len(Listed().ls("/listed", detail=False)) == 1
    assert len(list(get_all("listed://listed"))) == 2


def test_a_listing_is_never_stale() -> None:
    put("memory://stale", "a.release", b"a")
    assert len(list(get_all("memory://stale"))) == 1
    fsspec.filesystem("memory").pipe_file("/stale/b.release", b"b")
    assert len(list(get_all("memory://stale"))) == 2


PATHS = (
    "",
    ".",
    "./",
    "./a",
    "a/",
    "a//b/",
    "~",
    "~/a",
    "~nobody-here/a",
    "/",
    "//",
    "/a/",
    "../a",
)
ODD = ("a", "p", "l", "d", "d/", "a.release", "none", "none.release", "a\0", "x" * 300, "/dev/null")


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_the_one_that_fsspec_makes_of_it(path: str) -> None:
    system, found = _system(path)
    assert not isinstance(system, AbstractFileSystem)
    assert found == fsspec.core.url_to_fs(path)[1]


@pytest.mark.parametrize("path", ["memory://a", "file:/a", "local:a", "data:,a", "dir::/a"])
def test_an_address_is_fsspecs(path: str) -> None:
    assert isinstance(_system(path)[0], AbstractFileSystem)


@pytest.mark.parametrize("name", ODD)
def test_a_path_is_read_as_fsspec_reads_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same folders, files and words for what is wrong."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "within.release").mkdir()
    (tmp_path / "d" / "x.release").write_bytes(b"x")
    (tmp_path / "d" / "link").symlink_to(tmp_path)
    (tmp_path / "l").symlink_to(tmp_path / "d")
    (tmp_path / "a").write_bytes(b"a")
    os.mkfifo(tmp_path / "p")
    monkeypatch.chdir(tmp_path)

    def outcomes() -> list[object]:
        found: list[object] = []
        for read in (lambda p: list(get_all(p)), exists, subfolders):
            try:
                found.append(read(name))
            except SudareError as problem:
                found.append(str(problem))
        return found

    plain = outcomes()
    monkeypatch.setattr("sudare.exchange._places._ADDRESS", re.compile(""))
    assert isinstance(_system(name)[0], AbstractFileSystem)
    assert plain == outcomes()
