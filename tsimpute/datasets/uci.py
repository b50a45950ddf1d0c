"""The 24 tables of the tabular imputation study: 23 of the UCI repository and StatLib's California housing."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from tsimpute.core.windows import Feature, Windows
from tsimpute.datasets.base import Card, Source
from tsimpute.datasets.fetching import check_sha256
from tsimpute.errors import ConfigError, DataError, SourceError

TARGET = "target"
_DOI, _STATLIB = "https://doi.org/10.24432/", "https://lib.stat.cmu.edu/datasets/houses.zip"
TABLES = {
    "airfoil_self_noise": ("C5VW2C", "a45794ef361fee4cd06c2a9ae8b618632c246a6709c72cea7e856c377e39ede5"),
    "banknote": ("C55P57", "e3ef550df6caf6da3f237c79105d6f53dd765e94954d1a2e4d56bd24e9263901"),
    "blood_transfusion": ("C5GS39", "341d913738185155bb4dd36f858210f3966bd545c303446c9a84a11e32ae7530"),
    "breast_cancer_diagnostic": ("C5DW2B", "56beff02c9ef884d8ea9eff37927fa3f6047a96b2c1da472e93d1ad1ce85201a"),
    "california": ("", "1bc5735822f2c476ac90a68d5afabe48ec4d62670da1321832b2b0e5a67b9579"),
    "climate_model_crashes": ("C5HG71", "f3b891bf1fca7f2f155d9780bdfe9326056e856ef9d33af83fb2ce82aaf21aa7"),
    "concrete_compression": ("C5PK67", "483549fb54101c11a036f4206f48b1f2a4d5a775b2af206d802a15520318d1ce"),
    "concrete_slump": ("C5FG7D", "18a7e8ac4db61c49cccf3e1bfe04c2d450591e73c0c9b90e5be74f682b4e7228"),
    "connectionist_bench_sonar": ("C5T01Q", "fdfba52f1d983749d4392167721732ec1a2d2f7a67ea2614af0e7539733316f5"),
    "connectionist_bench_vowel": ("C58P4S", "56b6adced014e9d33aa3b079f4a181404130ac892f99a185e80d54d28fbcd81e"),
    "ecoli": ("C5388M", "93fbbd0d5e65ca111027fb8c9db6de0b49eb679022c4cd4d1e9fffdce10aea07"),
    "glass": ("C5WW2P", "7ef4057f3df5c39af3651954721ee979372f5114d26162b4940fef7e9364fb89"),
    "ionosphere": ("C5W01B", "da8587bd9a1d4473195ffacb755040970832db511174bf00a449127a60dd39e9"),
    "iris": ("C56C76", "a18337707798dea85adaa17bfd47179e4e878f64b9aa1da7584c0dc586967446"),
    "libras": ("C5GC82", "79e9986890e31c8e1af648acd55bfba559de0bd8a99efb073ef479d873fde8f8"),
    "parkinsons": ("C59C74", "8a12f427be18e6a3075330e44d8761f78762b13ba9f29c11a79fb9529fbf6bbd"),
    "planning_relax": ("C5T023", "516635dfcd30b20743b8c1049057745e95a230dabdd85255a254734addd16eac"),
    "qsar_biodegradation": ("C5H60M", "84c76495a7faa3290b197fb4bbd57a4f9ca3a6e34c84e6976b777577c28c4f30"),
    "seeds": ("C5H30K", "f20c24e08c6001d639d596b8eb48de1e7506703a08fd6155cf0da9d337eb7c84"),
    "wine": ("C5PC7J", "ace8a2853d6852c93acdcd8e557ec96f49251e84de1e696d27c7330f50660cba"),
    "wine_quality_red": ("C56S3T", "2cd328d986f3fc99f261dcb4cc789c30caa8318ba70fd1d7c1fb1e5c25b82855"),
    "wine_quality_white": ("C56S3T", "80a2137c3a1e91307e06e9d00d9e2eb33c672cdd64f7db24b2938c559b9f389d"),
    "yacht_hydrodynamics": ("C5XG7R", "61014eb9e0b357bddb9c81546beae881408954424606111069ec83a79e8c433e"),
    "yeast": ("C5KG68", "2e5bead02a4ae4b5682e1122415220d7c68955e70da7c53e80b93d88d762bc69"),
}
"""By name: the end of its DOI ("" = StatLib), and the sha256 of the file."""

NUMERIC_TARGETS = (
    "airfoil_self_noise", "california", "concrete_compression", "concrete_slump", "wine_quality_red",
    "wine_quality_white", "yacht_hydrodynamics",
)  # fmt: skip
"""Tables whose outcome is a number; that of the others is a class."""

_CARD = Card(
    title="24 tables of the UCI repository and StatLib",
    licence="CC BY 4.0 as the UCI repository lists its sets; none stated for california (StatLib)",
    citation='"AUTHOR (year). NAME [Dataset]. UCI Machine Learning Repository" with the DOI of each table',
    sources=tuple(Source(f"{n}.csv", f"{_DOI}{doi}" if doi else _STATLIB, sha) for n, (doi, sha) in TABLES.items()),
)


@dataclass(frozen=True)
class UCI:
    """One of 24 complete tables: a record is a row, of K features and one step, in the order of the file.

    The outcome, the last column, is not among the features: see ``target``.

    Attributes:
        table: its name, "airfoil_self_noise" to "yeast".

    Raises:
        ConfigError: no such table.
    """

    table: str = "iris"

    name = "uci"
    card = _CARD

    def __post_init__(self) -> None:
        if self.table not in TABLES:
            raise ConfigError(f"table: expected one of {', '.join(TABLES)}; came {self.table!r}.")

    def locate(self, root: Path) -> Path:
        """The folder of the tables: ``root`` or its ``uci/``, whichever holds any of them."""
        folders = [Path(root), Path(root) / self.name]
        for folder in folders:
            if any((folder / f"{table}.csv").is_file() for table in TABLES):
                return folder
        raise SourceError(
            f"{self.name}: expected NAME.csv of a table in {' or '.join(map(str, folders))}; there is none. "
            "`tsimpute fetch uci` cannot make them: the card datasets/uci.md says where each table is published and "
            "how its file is laid out. Name the folder with --root or TSIMPUTE_DATA."
        )

    def load(self, root: Path | None) -> Windows:
        """All rows, complete, without a split; an empty cell is missing."""
        names, rows = self._read(root)
        values = np.array([[float(cell or "nan") for cell in row[:-1]] for row in rows])
        return Windows(
            values=values[:, :, None],
            times=np.zeros((len(rows), 1)),
            features=tuple(Feature(name) for name in names[:-1]),
            record_ids=tuple(f"{self.table}-{n:05d}" for n in range(len(rows))),
        )

    @property
    def is_numeric(self) -> bool:
        """Whether the outcome is a number, and not a class."""
        return self.table in NUMERIC_TARGETS

    def target(self, root: Path | None) -> np.ndarray:
        """(N,) the outcome of each row: float64 where it is a number, else the text of its class."""
        outcome = [row[-1] for row in self._read(root)[1]]
        return np.array(outcome, np.float64 if self.is_numeric else np.str_)

    def download(self, folder: Path) -> NoReturn:
        """Raises SourceError: each table is published in a layout of its own, and some are edited by hand."""
        self.locate(folder)
        raise SourceError(f"{self.name}: {folder} holds files already.")

    def verify(self, root: Path) -> None:
        """Accepts the tables that are there if they are those of the card."""
        folder = self.locate(root)
        for source in self.card.sources:
            if (folder / source.name).is_file():
                check_sha256(folder / source.name, source.sha256)

    def _read(self, root: Path | None) -> tuple[list[str], list[list[str]]]:
        """The names of the columns, and the cells of all rows as texts, checked."""
        if root is None:
            raise SourceError(f"{self.name}: expected the folder of its files, came None. Name it with --root.")
        path = self.locate(root) / f"{self.table}.csv"
        if not path.is_file():
            raise SourceError(
                f"{self.name}: expected {path}; there is none. The card datasets/uci.md says what it holds."
            )
        with path.open(newline="", encoding="utf-8") as file:
            names, *rows = list(csv.reader(file)) or [[]]
        if len(names) < 2 or names[-1] != TARGET or not rows:
            raise DataError(
                f"{path}: expected a header that ends with {TARGET!r} and rows below it; came {names[-3:]}."
            )
        for line, row in enumerate(rows, start=2):
            if len(row) != len(names):
                raise DataError(f"{path}, line {line}: expected {len(names)} cells, came {len(row)}.")
            for name, cell in zip(names if self.is_numeric else names[:-1], row, strict=False):
                if not _is_number(cell or ("nan" if name == TARGET else "0")):
                    raise DataError(
                        f"{path}, line {line}, column {name!r}: expected a finite number"
                        f"{' or nothing' * (name != TARGET)}, came {cell!r}."
                    )
        return names, rows


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


PLUGIN = UCI
