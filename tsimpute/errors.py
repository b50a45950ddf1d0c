"""The error tree.

::

    TsimputeError
    ├── DataError           (ValueError)         data, a file or a mask is not what was expected
    ├── SourceError         (FileNotFoundError)  the raw files of a data set were not found
    ├── ConfigError         (ValueError)         a setting is unknown, of the wrong kind or out of range
    ├── CheckpointError     (ValueError)         a model file is foreign, damaged or of another layout
    ├── BusyError           (RuntimeError)       another process is at work in a folder
    ├── TrainingError       (RuntimeError)       training cannot go on; what was good is kept
    ├── OutOfMemoryError    (MemoryError)        not even the smallest piece of the work fits in memory
    ├── NotFittedError      (RuntimeError)       an imputer was asked to impute before it was fitted
    ├── MissingExtraError   (ImportError)        an optional package is not installed
    └── ContractError       (AssertionError)     a plug-in breaks laws of its kind

    ImputationWarning       (UserWarning)        what of a table a person should look at; nothing is wrong yet

Every message says what was expected, what came, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping


class TsimputeError(Exception):
    """Base of every error that this package raises on purpose."""


class DataError(TsimputeError, ValueError):
    """Data, a file or a mask is not what was expected."""


class SourceError(TsimputeError, FileNotFoundError):
    """The raw files of a data set were not found where they were looked for."""


class ConfigError(TsimputeError, ValueError):
    """A setting is unknown, of the wrong kind or out of range."""


class CheckpointError(TsimputeError, ValueError):
    """A model file is foreign, damaged or of another layout."""


class BusyError(TsimputeError, RuntimeError):
    """Another process is at work in a folder that is to be worked in."""


class TrainingError(TsimputeError, RuntimeError):
    """Training cannot go on; the last good weights are kept."""


class OutOfMemoryError(TsimputeError, MemoryError):
    """Not even the smallest piece of the work fits in memory."""


class NotFittedError(TsimputeError, RuntimeError):
    """An imputer was asked to impute before it was fitted or loaded."""


class MissingExtraError(TsimputeError, ImportError):
    """An optional package is needed and not installed."""


class ContractError(TsimputeError, AssertionError):
    """A plug-in breaks laws of its kind.

    Attributes:
        broken: why, by the name of each law.
    """

    def __init__(self, plugin: str, broken: Mapping[str, str]) -> None:
        self.broken = dict(broken)
        lines = "".join(f"\n- {law}: {why}" for law, why in broken.items())
        super().__init__(f"{plugin} breaks {len(broken)} of the laws of its kind:{lines}")


class ImputationWarning(UserWarning):
    """What was done with a table, or is to be seen in it, that a person should know of.

    Example:
        >>> import warnings
        >>> import tsimpute as ti
        >>> warnings.simplefilter("ignore", ti.ImputationWarning)  # silences them
    """
