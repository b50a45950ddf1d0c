"""C compiled for this machine: kept, made anew when anything changes, and done without where it cannot be had."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest

from tsimpute.system import native
from tsimpute.system.native import compiled
from tsimpute.system.places import user_cache

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="NO C COMPILER: what is compiled is not tested"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    native._warn_slower.cache_clear()
    for name in ("CC", "TSIMPUTE_NATIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "answer.c"
    path.write_text("int answer(void) { return TWICE * 2; }")
    return path


def libraries() -> list[Path]:
    return sorted((user_cache() / "native").glob("*.so"))


@needs_compiler
def test_it_is_compiled_once_for_each_source_and_macro(source: Path):
    times: list[int] = []
    for twice in (21, 4, 21):
        library = compiled(source, TWICE=twice)
        assert library is not None
        assert library.answer() == 2 * twice
        before, times = times, sorted(path.stat().st_mtime_ns for path in libraries())
    assert len(times) == 2
    assert times == before
    source.write_text("int answer(void) { return 1; }")
    library = compiled(source, TWICE=21)
    assert library is not None
    assert library.answer() == 1
    assert len(libraries()) == 3
    assert set(times) < {path.stat().st_mtime_ns for path in libraries()}


@needs_compiler
def test_nothing_unfinished_is_left(source: Path):
    compiled(source, TWICE=1)
    assert [path.suffix for path in (user_cache() / "native").iterdir()] == [".so"]


@needs_compiler
def test_what_does_not_compile_is_done_without(source: Path, caplog: pytest.LogCaptureFixture):
    source.write_text("int answer(void) { return nonsense; }")
    with caplog.at_level("INFO"), pytest.warns(RuntimeWarning, match=r"slower .*answer\.c cannot be compiled"):
        assert compiled(source) is None
    assert "nonsense" in caplog.text
    assert libraries() == []


def test_it_can_be_switched_off_without_a_word(source: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TSIMPUTE_NATIVE", "0")
    assert compiled(source, TWICE=1) is None


@pytest.mark.parametrize(("variable", "value"), [("CC", "no-such-compiler"), ("PATH", "")])
def test_who_has_no_compiler_is_told_once_what_is_slower_and_what_to_do(
    source: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
):
    monkeypatch.setenv(variable, value)
    with pytest.warns(RuntimeWarning, match=r"three to seven times slower .*compiler.*TSIMPUTE_NATIVE=0 switches"):
        assert compiled(source, TWICE=1) is None
    with warnings.catch_warnings(action="error"):
        assert compiled(source, TWICE=2) is None


def test_on_windows_where_nothing_is_compiled_the_way_out_is_another(source: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(native.sys, "platform", "win32")
    with pytest.warns(RuntimeWarning, match="cannot be compiled on Windows. Use WSL"):
        assert compiled(source, TWICE=1) is None


@needs_compiler
def test_where_the_cache_cannot_be_written_it_is_made_for_this_process(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    library = compiled(source, TWICE=3)
    assert library is not None
    assert library.answer() == 6


@needs_compiler
def test_a_library_that_cannot_be_loaded_is_done_without(source: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(name: str) -> None:
        raise OSError(f"{name}: cannot map: no permission")

    monkeypatch.setattr(native.ctypes, "CDLL", refuse)
    with pytest.warns(RuntimeWarning, match="cannot map: no permission"):
        assert compiled(source, TWICE=1) is None
    assert len(libraries()) == 1


@needs_compiler
def test_a_folder_that_others_can_write_to_is_not_trusted(source: Path):
    folder = user_cache() / "native"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    library = compiled(source, TWICE=3)
    assert library is not None
    assert library.answer() == 6
    assert libraries() == []
