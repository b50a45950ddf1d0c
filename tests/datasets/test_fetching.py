"""Finding and fetching raw files, against a server on this machine that is slow, broken, lying or absent."""

from __future__ import annotations

import http.server
import io
import re
import shutil
import socket
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import platformdirs.macos
import platformdirs.unix
import pytest

from tsimpute.config.registry import make
from tsimpute.datasets import physionet2012, pm25
from tsimpute.datasets.base import Source
from tsimpute.datasets.fetching import download, fetch, find_root, sha256
from tsimpute.errors import ConfigError, DataError, SourceError
from tsimpute.system.files import user_cache

SAMPLES = Path(__file__).parents[2] / "datasets" / "samples"


@dataclass
class Server:
    """Files to serve; how many bytes of an answer go out before the connection breaks; and what was asked for."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    break_after: int | None = None
    ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content, wanted = state.files.get(self.path), self.headers.get("Range")
            state.asked.append((self.path, wanted))
            if content is None:
                return self.send_error(404)
            start = int(wanted[len("bytes=") : -1]) if wanted and state.ranges else 0
            if start >= len(content):
                return self.send_error(416)
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:][: state.break_after])
            return None

        def log_message(self, *_: object) -> None:
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Server(f"http://127.0.0.1:{httpd.server_address[1]}")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield state
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def dead_url() -> str:
    """An address at which nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


@pytest.fixture
def released(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server has an ST-MVL release with our sample tables in it, and the card knows their checksums."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as release:
        release.writestr("Code/STMVL/readme.txt", "not needed")
        for source in pm25.PM25.card.sources:
            content = (SAMPLES / "pm25" / source.name).read_bytes().replace(b"\n", b"\r\n")
            release.writestr(f"{pm25.IN_RELEASE}/{source.name}", content)
    server.files["/release.zip"] = archive.getvalue()
    sources = tuple(
        Source(s.name, f"{server.url}/release.zip", sha256((SAMPLES / "pm25" / s.name).read_bytes()))
        for s in pm25.PM25.card.sources
    )
    monkeypatch.setattr(pm25.PM25, "card", replace(pm25.PM25.card, sources=sources))
    monkeypatch.setattr(pm25, "RELEASE_OLD_ADDRESS", f"{server.url}/old.zip")
    return server


# --- single files ---------------------------------------------------------------------------------------------------


def test_download_is_whole(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = bytes(range(256)) * 3000
    download([f"{server.url}/a"], tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == server.files["/a"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("ranges", [True, False])
def test_broken_download_is_continued(server: Server, tmp_path: Path, ranges: bool) -> None:
    server.files["/a"], server.break_after, server.ranges = bytes(range(256)) * 30, 1000, ranges
    with pytest.raises(SourceError, match="what has arrived is kept"):
        download([f"{server.url}/a"], tmp_path / "a")
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "a.part").stat().st_size == 1000
    server.break_after = None
    download([f"{server.url}/a"], tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == server.files["/a"]
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000-"]


def test_leftover_longer_than_the_file_starts_anew(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = b"new"
    (tmp_path / "a.part").write_bytes(b"of an older, longer version")
    download([f"{server.url}/a"], tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_failing_network_is_told(server: Server, dead_url: str, tmp_path: Path) -> None:
    for url, reason in ((f"{dead_url}/a", "refused"), (f"{server.url}/none", "404"), ("no address", "unknown url")):
        with pytest.raises(SourceError, match=rf"(?s){re.escape(url)}: could not be downloaded .*{reason}.*proxy"):
            download([url], tmp_path / "a")
    assert not list(tmp_path.iterdir())


# --- PM2.5: our own downloader --------------------------------------------------------------------------------------


def test_fetch_pm25_verifies_unpacks_and_asks_once(released: Server, tmp_path: Path) -> None:
    folder = fetch("pm25", tmp_path)
    assert folder == tmp_path / "pm25"
    assert sorted(path.name for path in folder.iterdir()) == [pm25.GROUND, pm25.MISSING]
    assert len(make("datasets", "pm25").load(folder)) == 41
    assert fetch("pm25", tmp_path) == folder
    assert released.asked == [("/release.zip", None)]
    assert [path.name for path in tmp_path.iterdir()] == ["pm25"]


def test_fetch_pm25_goes_on_after_a_break_and_tries_the_other_address(released: Server, tmp_path: Path) -> None:
    released.break_after = 700
    with pytest.raises(SourceError, match=r"(?s)release\.zip: .*broke off after 700 of .*old\.zip: .*404"):
        fetch("pm25", tmp_path)
    assert not (tmp_path / "pm25").exists()
    released.break_after = None
    fetch("pm25", tmp_path)
    assert released.asked[-1] == ("/release.zip", "bytes=700-")
    released.files["/old.zip"] = released.files.pop("/release.zip")
    fetch("pm25", tmp_path / "again")


def test_fetch_pm25_refuses_other_content_and_starts_anew(released: Server, tmp_path: Path) -> None:
    good = released.files["/release.zip"]
    altered = io.BytesIO()
    with zipfile.ZipFile(altered, "w") as release:
        for source in pm25.PM25.card.sources:
            release.writestr(f"{pm25.IN_RELEASE}/{source.name}", "datetime,001001\n")
    for content, words in (
        (altered.getvalue(), "expected the published file"),
        (b"<html>", "expected the ST-MVL release"),
    ):
        released.files["/release.zip"] = content
        with pytest.raises(DataError, match=words):
            fetch("pm25", tmp_path)
        assert not (tmp_path / "pm25").exists()
    released.files["/release.zip"] = good
    assert fetch("pm25", tmp_path).is_dir()


def test_fetch_names_damaged_files_in_the_cache_and_leaves_them(released: Server, tmp_path: Path) -> None:
    folder = fetch("pm25", tmp_path)
    (folder / pm25.GROUND).write_text("edited")
    with pytest.raises(DataError, match=rf"{pm25.GROUND}: expected the published file .* remove it and get it again"):
        fetch("pm25", tmp_path)
    assert (folder / pm25.GROUND).read_text() == "edited"


# --- PhysioNet: TSDB's downloader -----------------------------------------------------------------------------------


@pytest.fixture
def stays(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add(SAMPLES / "physionet2012" / "set-a", "set-a")
    server.files |= {"/set-a.tar.gz": archive.getvalue(), "/Outcomes-a.txt": b"RecordID,SOFA\n900001,-1\n"}
    adapter = physionet2012.PhysioNet2012
    sources = tuple(
        Source(s.name, f"{server.url}/{s.name}", sha256(server.files[f"/{s.name}"])) for s in adapter.card.sources
    )
    monkeypatch.setattr(adapter, "card", replace(adapter.card, sources=sources))
    contents = [
        path.stem.encode() + b"\n" + path.read_bytes()
        for path in sorted((SAMPLES / "physionet2012" / "set-a").iterdir())
    ]
    monkeypatch.setattr(physionet2012, "STAYS_SHA256", sha256(b"".join(contents)))
    return server


def test_fetch_physionet_with_tsdb_leaves_no_trace(
    stays: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    home, cache = tmp_path / "home", tmp_path / "cache"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    good = stays.files.pop("/set-a.tar.gz")
    with pytest.raises(SourceError, match=r"set-a\.tar\.gz.* could not be downloaded \(tsdb: .*proxy"):
        fetch("physionet2012", cache)
    assert not (cache / "physionet2012").exists()

    stays.files["/set-a.tar.gz"] = good
    folder = fetch("physionet2012", cache)
    assert sorted(path.name for path in folder.iterdir()) == ["Outcomes-a.txt", "set-a"]
    assert len(make("datasets", "physionet2012").load(folder)) == 6
    assert [path.name for path in cache.iterdir()] == ["physionet2012"]
    assert not list(home.iterdir())
    assert capfd.readouterr() == ("", "")


def test_fetch_physionet_refuses_other_content(stays: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpack(name: str, urls: list[str], folder: Path) -> None:
        shutil.copytree(SAMPLES / "physionet2012", folder)
        (folder / "set-a" / "900001.txt").write_text("Time,Parameter,Value\n")

    monkeypatch.setattr(physionet2012, "download_with_tsdb", unpack)
    with pytest.raises(DataError, match="expected the 4000 stays as published"):
        fetch("physionet2012", tmp_path)
    assert not list(tmp_path.iterdir())


# --- where files are looked for -------------------------------------------------------------------------------------


@pytest.fixture
def no_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user cache, and no TSIMPUTE_DATA."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TSIMPUTE_DATA", raising=False)
    return tmp_path


def link_samples(at: Path) -> Path:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(SAMPLES / "pm25")
    return at


def test_order_of_places(no_places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = link_samples(user_cache() / "pm25")
    assert find_root("pm25") == cached
    given = no_places / "data"
    given.mkdir()
    monkeypatch.setenv("TSIMPUTE_DATA", str(given))
    assert find_root("pm25") == cached
    link_samples(given / "pm25")
    assert find_root("pm25") == given
    monkeypatch.setenv("TSIMPUTE_DATA", str(given / "pm25"))
    assert find_root("pm25") == given / "pm25"
    root = link_samples(no_places / "root")
    assert find_root("pm25", root) == root
    assert len(make("datasets", "pm25").load(find_root("pm25"))) == 41


def test_a_wrong_root_is_not_replaced_by_another_place(no_places: Path) -> None:
    link_samples(user_cache() / "pm25")
    with pytest.raises(SourceError, match=re.escape(str(no_places / "typo"))):
        find_root("pm25", no_places / "typo")


@pytest.mark.parametrize("name", ["pm25", "physionet2012"])
def test_nowhere_names_every_place_and_the_way_to_get_it(
    name: str, no_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceError) as error:
        find_root(name)
    for word in ("TSIMPUTE_DATA is not set", str(user_cache() / name), f"tsimpute fetch {name}", "https://", "--root"):
        assert word in str(error.value)
    monkeypatch.setenv("TSIMPUTE_DATA", str(no_places / "data"))
    with pytest.raises(SourceError, match=re.escape(f"TSIMPUTE_DATA={no_places / 'data'}")):
        find_root(name)


def test_generated_data_needs_no_files(no_places: Path) -> None:
    assert find_root("synthetic") is None
    with pytest.raises(ConfigError, match="generated: there is nothing to fetch"):
        fetch("synthetic")


@pytest.mark.parametrize("call", [find_root, fetch])
def test_unknown_name(call: Callable[[str], object]) -> None:
    with pytest.raises(ConfigError, match=r"expected one of .*pm25.*came 'nope'"):
        call("nope")


@pytest.mark.parametrize(
    ("kind", "variables", "expected"),
    [
        (platformdirs.unix.Unix, {}, "/h/.cache/tsimpute"),
        (platformdirs.unix.Unix, {"XDG_CACHE_HOME": "/x"}, "/x/tsimpute"),
        (platformdirs.macos.MacOS, {}, "/h/Library/Caches/tsimpute"),
        (platformdirs.macos.MacOS, {"XDG_CACHE_HOME": "/x"}, "/x/tsimpute"),
    ],
)
def test_user_cache(monkeypatch: pytest.MonkeyPatch, kind: type, variables: dict, expected: str) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in {"HOME": "/h", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(platformdirs, "PlatformDirs", kind)
    assert user_cache() == Path(expected)


def test_checksum_does_not_see_line_ends() -> None:
    assert sha256(b"a\r\nb\r\n") == sha256(b"a\nb\n") != sha256(b"a\nb")
    assert sha256(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
