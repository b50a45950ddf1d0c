"""Small pieces of C as shared libraries: those of the wheel, or compiled once for this computer in the user's cache.

A wheel that was built on a computer with a compiler brings libraries for its platform. A library whose name does not
carry the digest of the installed source is not used. Where the wheel has none, the source is compiled at first use.
Without a compiler, where compiling fails, on Windows or with ``TSIMPUTE_NATIVE=0`` there is no library, and callers
take their slower way; who did not choose so is warned once. ``CC`` names another compiler than ``cc``.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

from tsimpute.system.files import user_cache

WHEEL_FOLDER = "compiled"
"""The folder beside a source in which a wheel has its libraries."""

_FLAGS = ("-std=gnu11", "-O3", "-shared", "-fPIC", "-fno-math-errno", "-ffp-contract=fast", "-w")
_COMPILERS = ("cc", "gcc", "clang")
_FOR_THIS_PROCESSOR = (["-march=native"], ["-mcpu=native"], [])
"""Compilers differ in what they call it; the first that compiles is taken."""

_AVX2 = ("-mavx2", "-mfma")
_FOR_PROCESSORS_WITH = {
    "AVX512": (*_AVX2, "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl"),
    "AVX2": _AVX2,
}
"""For wheels of x86-64: by torch's name of what a processor can do, best first. Other machines need no options."""

_log = logging.getLogger(__name__)


def is_switched_off() -> bool:
    """Whether ``TSIMPUTE_NATIVE=0`` says that nothing is compiled or loaded."""
    return os.environ.get("TSIMPUTE_NATIVE", "1") == "0"


def compiled(source: Path, **macros: int) -> ctypes.CDLL | None:
    """The library of one file, with ``macros`` defined; None where no library can be loaded.

    Warns:
        RuntimeWarning: there is none although it was not switched off; once in a process.
    """
    if is_switched_off():
        return None
    if sys.platform == "win32":  # GCC misaligns vectors there
        _warn_slower("it cannot be compiled on Windows", "Use WSL or Linux if it takes too long")
        return None
    try:
        return _from_wheel(source, macros) or ctypes.CDLL(str(_from_cache(source, macros)))
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        _log.info("%s is not compiled, the slower way is taken: %s", source.name, reason[-500:])
        first = reason.splitlines()[0] if reason else type(error).__name__
        _warn_slower(f"{source.name} cannot be compiled ({first[:200]})", "Install a C compiler, or name one with CC")
        return None


@cache
def _warn_slower(reason: str, remedy: str) -> None:
    """Once for each reason: training and sampling become slower, and results stay the same but for rounding."""
    warnings.warn(
        f"attention runs three to seven times slower on this computer: {reason}. {remedy}; TSIMPUTE_NATIVE=0 switches "
        "compiled code and this warning off (docs/native_code.md).",
        RuntimeWarning,
        stacklevel=2,
    )


def compiler() -> list[str]:
    """The command that compiles: the one that ``CC`` names, or the first that is installed, else FileNotFoundError."""
    if named := shlex.split(os.environ.get("CC", "")):
        return named
    for name in _COMPILERS:
        if shutil.which(name):
            return [name]
    raise FileNotFoundError(f"no compiler ({', '.join(_COMPILERS)}) was found; CC can name one")


# -- libraries of the wheel ----------------------------------------------------------------------------------------


def compile_for_wheel(source: Path, folder: Path, **macros: int) -> list[Path]:
    """Compiles one file for every processor of this platform that a wheel serves; what was written to ``folder``.

    Raises:
        FileNotFoundError, subprocess.SubprocessError: there is no compiler, or it fails.
    """
    paths = []
    for processor, options in _processors_of_wheels().items():
        path = folder / _name_in_wheel(source, macros, processor)
        _run_compiler(source, macros, options, path)
        paths.append(path)
    return paths


def _from_wheel(source: Path, macros: dict[str, int]) -> ctypes.CDLL | None:
    """The wheel's library of exactly this source for this processor; None where there is none, or it does not load."""
    for processor in _processors_of_wheels():
        path = source.parent / WHEEL_FOLDER / _name_in_wheel(source, macros, processor)
        if path.is_file() and _can(processor):
            try:
                return ctypes.CDLL(str(path))
            except OSError as error:  # damaged, or of another platform
                _log.info("%s of the wheel cannot be loaded: %s", path.name, error)
    return None


def _name_in_wheel(source: Path, macros: dict[str, int], processor: str) -> str:
    defined = "".join(f"-{name}{value}" for name, value in sorted(macros.items()))
    return f"{source.stem}{defined}-{processor}-{_digest(source.read_text(encoding='utf-8'), *_FLAGS)}.so"


def _processors_of_wheels() -> dict[str, tuple[str, ...]]:
    return _FOR_PROCESSORS_WITH if platform.machine() in ("x86_64", "AMD64") else {platform.machine(): ()}


def _can(processor: str) -> bool:
    """Whether this computer's processor runs code made for ``processor``."""
    if processor not in _FOR_PROCESSORS_WITH:
        return processor == platform.machine()
    import torch

    able = torch.backends.cpu.get_cpu_capability()
    order = list(_FOR_PROCESSORS_WITH)
    return able in order and order.index(able) <= order.index(processor)


# -- libraries of the user's cache ---------------------------------------------------------------------------------


def _from_cache(source: Path, macros: dict[str, int]) -> Path:
    """The library compiled for this computer; it is compiled where the cache does not have it.

    A home folder may be shared by computers of different processors, and several processes may compile at once: each
    puts a whole file in place.
    """
    processor = [platform.system(), platform.machine(), platform.processor()]
    info = Path("/proc/cpuinfo")
    if info.exists():
        processor += [line for line in info.read_text().splitlines() if line.startswith(("flags", "Features"))][:1]
    defined = [f"{name}={value}" for name, value in sorted(macros.items())]
    digest = _digest(source.read_text(encoding="utf-8"), *compiler(), *defined, *_FLAGS, " ".join(processor))
    path = _private_folder() / f"{source.stem}-{digest}.so"
    if path.is_file():
        return path
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        built = Path(work) / path.name
        for n, options in enumerate(_FOR_THIS_PROCESSOR, 1):
            try:
                _run_compiler(source, macros, options, built)
                break
            except subprocess.CalledProcessError:
                if n == len(_FOR_THIS_PROCESSOR):
                    raise
        built.replace(path)
    return path


def _private_folder() -> Path:
    """A folder that no one else can write to: in the user's cache, or, where that cannot be, a temporary one."""
    try:
        folder = user_cache() / "native"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid == os.getuid() and not status.st_mode & 0o022 and os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # no home
        pass
    folder = Path(tempfile.mkdtemp(prefix="tsimpute-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _run_compiler(source: Path, macros: dict[str, int], options: list[str] | tuple[str, ...], to: Path) -> None:
    defined = [f"-D{name}={value}" for name, value in sorted(macros.items())]
    call = [*compiler(), *defined, *_FLAGS, *options, "-o", str(to), str(source)]
    subprocess.run(call, check=True, capture_output=True, text=True, errors="replace", timeout=120)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
