"""Small pieces of C, compiled once for this machine and kept in the user's cache; all can be done without.

Without a compiler, where compiling fails, on Windows or with ``TSIMPUTE_NATIVE=0`` there is no library, and callers
take their other way; who did not choose so is warned once. ``CC`` names another compiler than ``cc``.
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

from tsimpute.system.places import user_cache

_FLAGS = ("-std=gnu11", "-O3", "-shared", "-fPIC", "-fno-math-errno", "-ffp-contract=fast", "-w")
_COMPILERS = ("cc", "gcc", "clang")
_FOR_THIS_PROCESSOR = (["-march=native"], ["-mcpu=native"], [])
"""Compilers differ in what they call it; the first that compiles is taken."""

_log = logging.getLogger(__name__)


def is_switched_off() -> bool:
    """Whether ``TSIMPUTE_NATIVE=0`` says that nothing is compiled."""
    return os.environ.get("TSIMPUTE_NATIVE", "1") == "0"


def compiled(source: Path, **macros: int) -> ctypes.CDLL | None:
    """The library of one file, with ``macros`` defined; None where there is none to be had.

    Warns:
        RuntimeWarning: there is none although it was not switched off; once in a process.
    """
    if is_switched_off():
        return None
    if sys.platform == "win32":  # GCC misaligns vectors there
        _warn_slower("it cannot be compiled on Windows", "Use WSL or Linux if it takes too long")
        return None
    try:
        defined = [f"-D{name}={value}" for name, value in sorted(macros.items())]
        made = _kept_or_new(source, [*compiler(), *defined, *_FLAGS])
        return ctypes.CDLL(str(made))
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()
        _log.info("%s is not compiled, the slower way is taken: %s", source.name, said[-500:])
        first = said.splitlines()[0] if said else type(error).__name__
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
    """The command that compiles: the one that ``CC`` names, or the first that is there.

    Raises:
        FileNotFoundError: ``CC`` names none, and none is there.
    """
    if named := shlex.split(os.environ.get("CC", "")):
        return named
    for name in _COMPILERS:
        if shutil.which(name):
            return [name]
    raise FileNotFoundError(f"no compiler ({', '.join(_COMPILERS)}) was found; CC can name one")


def _kept_or_new(source: Path, command: list[str]) -> Path:
    key = "\0".join([source.read_text(encoding="utf-8"), *command, _processor()])
    name = f"{source.stem}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"
    folder = _own_folder()
    if not (folder / name).is_file():
        _compile(source, command, folder / name)
    return folder / name


def _own_folder() -> Path:
    """A folder that no one else can write to: in the user's cache, or, where that cannot be, a temporary one."""
    try:
        folder = user_cache() / "native"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
        if about.st_uid == os.getuid() and not about.st_mode & 0o022 and os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # no home
        pass
    folder = Path(tempfile.mkdtemp(prefix="tsimpute-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _compile(source: Path, command: list[str], to: Path) -> None:
    """Several processes may do so at once; each puts a whole file in place."""
    with tempfile.TemporaryDirectory(dir=to.parent) as work:
        made = Path(work) / to.name
        for n, flags in enumerate(_FOR_THIS_PROCESSOR):
            call = [*command, *flags, "-o", str(made), str(source)]
            try:
                subprocess.run(call, check=True, capture_output=True, text=True, errors="replace", timeout=120)
                break
            except subprocess.CalledProcessError:
                if n == len(_FOR_THIS_PROCESSOR) - 1:
                    raise
        made.replace(to)


def _processor() -> str:
    """What a library made here needs: a home folder may be shared by machines of different processors."""
    about = [platform.system(), platform.machine(), platform.processor()]
    info = Path("/proc/cpuinfo")
    if info.exists():
        about += [line for line in info.read_text().splitlines() if line.startswith(("flags", "Features"))][:1]
    return " ".join(about)
