"""Shared libraries of C: those of a wheel, those compiled for this computer, and none where neither can be had."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tsimpute.system import native
from tsimpute.system.files import user_cache
from tsimpute.system.native import WHEEL_FOLDER, compile_for_wheel, compiled

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


@pytest.fixture
def wheel(source: Path) -> list[Path]:
    """The libraries of a wheel, TWICE defined as 21."""
    folder = source.parent / WHEEL_FOLDER
    folder.mkdir()
    return compile_for_wheel(source, folder, TWICE=21)


@needs_compiler
def test_a_wheels_library_of_this_source_and_macro_is_used_and_nothing_is_compiled(
    source: Path, wheel: list[Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CC", "no-such-compiler")
    library = compiled(source, TWICE=21)
    assert library is not None
    assert library.answer() == 42
    assert Path(library._name) in wheel
    assert libraries() == []


def damage(source: Path, wheel: list[Path]) -> None:
    for path in wheel:
        path.write_bytes(path.read_bytes()[:100])


def remove(source: Path, wheel: list[Path]) -> None:
    for path in wheel:
        path.unlink()


def change_the_source(source: Path, wheel: list[Path]) -> None:
    source.write_text(source.read_text() + "\n")


@needs_compiler
@pytest.mark.parametrize("what", [damage, remove, change_the_source], ids=lambda what: what.__name__)
def test_without_a_wheels_library_that_fits_the_source_is_compiled_or_there_is_a_warning(
    source: Path, wheel: list[Path], monkeypatch: pytest.MonkeyPatch, what: Callable[[Path, list[Path]], None]
):
    what(source, wheel)
    library = compiled(source, TWICE=21)
    assert library is not None
    assert library.answer() == 42
    assert [Path(library._name)] == libraries()
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.warns(RuntimeWarning, match="three to seven times slower") as caught:
        assert [compiled(source, TWICE=21), compiled(source, TWICE=21)] == [None, None]
    assert len(caught) == 1


@needs_compiler
def test_another_macro_than_the_wheels_is_compiled(source: Path, wheel: list[Path]):
    library = compiled(source, TWICE=4)
    assert library is not None
    assert library.answer() == 8


@needs_compiler
def test_a_processor_takes_no_library_that_it_cannot_run(
    source: Path, wheel: list[Path], monkeypatch: pytest.MonkeyPatch
):
    """On x86-64: AVX-512 code never runs on a processor that has AVX2 alone, and old ones compile."""
    if len(wheel) == 1:
        pytest.skip("wheels of this platform have one library for all its processors")
    for able, name in (("AVX512", "AVX512"), ("AVX2", "AVX2"), ("DEFAULT", None)):
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda able=able: able)
        library = native._from_wheel(source, {"TWICE": 21})
        assert (library and Path(library._name).name.split("-")[2]) == name
