"""What of this machine tsimpute uses: versions, compiled code, threads, devices, caches."""

from __future__ import annotations

import os
import platform
import re
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import torch

from tsimpute import __version__
from tsimpute.system.files import packaged, user_cache
from tsimpute.system.native import WHEEL_FOLDER, compiled, is_switched_off
from tsimpute.system.threads import spins

_DEVELOPERS = re.compile(r"extra == .(dev|docs)\b")
_VARIABLES = ("TSIMPUTE_DATA", "TSIMPUTE_NATIVE", "CC", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS")


def report() -> Iterator[tuple[str, str]]:
    """Names and values, line by line."""
    yield "tsimpute", f"{__version__} on Python {platform.python_version()}, {sys.executable}"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} CPUs"
    yield "packages", ", ".join(f"{name} {_version(name)}" for name in _listed(optional=False))
    yield "optional packages", ", ".join(f"{name} {_version(name)}" for name in _listed(optional=True))
    yield "compiled attention", _compiled()
    waits = "may spin (set OMP_WAIT_POLICY=PASSIVE before Python starts)" if spins() else "do not spin"
    yield "threads", f"{torch.get_num_threads()} of torch; threads that wait {waits}"
    gpus = [f"cuda:{n} {torch.cuda.get_device_name(n)}" for n in range(torch.cuda.device_count())]
    yield "devices", ", ".join(["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])])
    yield "cache", _folder_text(str(user_cache()))
    data = os.environ.get("TSIMPUTE_DATA")
    yield "raw data", "TSIMPUTE_DATA is not set" if data is None else _folder_text(data)
    variables = [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    yield "variables", ", ".join(variables) or "none is set"


def _listed(optional: bool) -> list[str]:
    """Names of the packages that tsimpute needs, or of those that extras for its users bring."""
    try:
        lines = requires("tsimpute-cfmi") or []
    except PackageNotFoundError:
        return []
    wanted = [
        line.partition(";")[0] for line in lines if ("extra ==" in line) == optional and not _DEVELOPERS.search(line)
    ]
    names = [line.rstrip(" 0123456789.,<>=!~").partition("[")[0].strip() for line in wanted]
    return list(dict.fromkeys(names))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"


def _compiled() -> str:
    if is_switched_off():
        return "switched off by TSIMPUTE_NATIVE=0; attention runs three to seven times slower"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        library = compiled(packaged("backbones", "row_attention.c"), HEAD=8)
    if library is None:
        return " ".join(["not in use:", *(str(one.message) for one in caught)])
    path = Path(library._name)
    return f"in use, {'from the wheel' if path.parent.name == WHEEL_FOLDER else 'compiled on this computer'}: {path}"


def _folder_text(folder: str) -> str:
    if not os.path.isdir(folder):
        return f"{folder}, which does not exist" + (" yet" if folder == str(user_cache()) else "")
    files = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    size = sum(os.path.getsize(path) for path in files if os.path.isfile(path))
    return f"{folder}, {len(files):,} files, {size / 2**20:,.0f} MiB"
