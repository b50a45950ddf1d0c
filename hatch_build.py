"""Puts compiled libraries into a wheel that is built on a computer with a C compiler, and names its platform.

Without a compiler, on Windows and with ``TSIMPUTE_NATIVE=0`` the wheel is one for every platform, and the source is
compiled at first use. An editable installation always compiles at first use.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "tsimpute/backbones/row_attention.c"
HEADS = (4, 8, 16)
"""Channels of an attention head: 8 in every shipped configuration. Others are compiled at first use."""


class CompiledLibraries(BuildHookInterface):
    """The build hook that pyproject.toml names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, and tells the builder which files to include under which tag."""
        self.folder = Path(tempfile.mkdtemp(prefix="tsimpute-wheel-"))
        if version == "editable" or sys.platform == "win32":
            return
        sys.path.insert(0, self.root)  # the package's own loader says how a library is named and compiled
        from tsimpute.system import native

        if native.is_switched_off():
            return
        source = Path(self.root, SOURCE)
        try:
            libraries = [path for head in HEADS for path in native.compile_for_wheel(source, self.folder, HEAD=head)]
        except (OSError, subprocess.SubprocessError) as error:
            self.app.display_warning(f"the wheel is built without compiled libraries: {error}")
            return
        target = f"{Path(SOURCE).parent.as_posix()}/{native.WHEEL_FOLDER}"
        build_data["force_include"] |= {str(path): f"{target}/{path.name}" for path in libraries}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what was compiled."""
        shutil.rmtree(self.folder, ignore_errors=True)
