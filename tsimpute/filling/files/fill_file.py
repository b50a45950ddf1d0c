"""One call from a person's file to the same file filled, with what each cell is and a report beside it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.core.panel import Filling
from tsimpute.core.quantiles import few_draws_text
from tsimpute.filling.files.outputs import Outputs
from tsimpute.filling.imputer.checks import check_any_value
from tsimpute.filling.imputer.imputation import Imputation, imputation_of
from tsimpute.filling.imputer.long_calls import after_a_while
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.filling.measuring.calibration import uncalibrated_text
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.summary import NOTHING, behind, is_complete, shortened, understood, unfilled, waited
from tsimpute.reports.table_report import ReportContent, write_report
from tsimpute.system.files import atomic_write, exclusive_lock, remove_partial
from tsimpute.tables.sources.files import TextForm, ending, is_folder_of_files, read_file, write_object


class _Stopped(Exception):
    """It was asked to stop where work cannot be taken up in the middle."""


class _TooLate(Exception):
    """What was to be drawn takes longer than there is time."""


_SPARE, _OVERRUN = 1.25, 1.05
"""What drawing and writing may take longer than the first time, and all of it than its minutes."""


def fill_file(
    source: Path,
    out: Path,
    settings: Mapping[str, Any],
    *,
    form: TextForm | None = None,
    force: bool = False,
    say: Callable[[str], None] = lambda text: None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
    spell: Callable[[str], str] = str,
) -> Imputation | None:
    """Fills a file; the same call again goes on where an interrupted one was.

    Example:
        >>> import tempfile
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20, "b": [2.0, 4.0, None] * 20})
        >>> folder = tempfile.TemporaryDirectory()
        >>> source, out = Path(folder.name, "in.csv"), Path(folder.name, "out.csv")
        >>> frame.to_csv(source, index=False)
        >>> found = fill_file(source, out, {"effort": "trial", "n_samples": 3, "calibrate": False})
        >>> int(pd.read_csv(out).isna().sum().sum())
        0
        >>> sorted(path.name for path in out.parent.iterdir() if path not in (source, out))
        ['out.cells.csv', 'out.model.safetensors', 'out.provenance.csv', 'out.report.html']
        >>> folder.cleanup()

    Args:
        source: see ``tables.files.read_file``.
        out: of the same kind; other files go beside it, see ``Outputs``.
        settings: of ``TableImputer``.
        form: how a text file is written.
        force: whether files that are there are overwritten.
        say: gets what was understood and done, in words.
        progress, should_stop: see ``TableImputer.fit``.
        spell: how the report is to spell settings, such as "missing_times='keep'".

    Returns:
        What was filled; None where it was asked to stop: no output is written, and what was learnt is kept in a folder
        beside them, which the same call takes up.

    Raises:
        DataError, ConfigError: the file, a setting or the output is not as expected; nothing is written then.
        BusyError: another process is filling into the same output.
        OSError: a file cannot be read or written.
    """
    began = time.monotonic()
    imputer = TableImputer(**settings)
    imputer.check()
    outputs = Outputs.beside(out, learns=imputer.model is None, is_folder=is_folder_of_files(source))
    outputs.check(source, force)
    with _alone(outputs):
        outputs.check(source, force)  # another process may just have written them
        prepared = _prepared(imputer, source, form, after_a_while(progress, "reading"))
        if imputer.model is None:
            check_any_value(prepared)
        about = understood(prepared, where=f"see {outputs.report.name}")
        say("\n".join([f"{source}:", about, *(f"  look: {text}" for text in imputer.ignored())]))
        if is_complete(prepared):
            what = "nothing to fill" if not prepared.unfillable else "nothing that can be filled"
            say(f"{what}: the output holds the table as it is")
            return _copied(outputs, source, prepared, imputer.levels, say, progress)

        def show(what: str, done: int, total: int) -> None:
            progress(what, done, total)
            if what != "learning" and should_stop():
                raise _Stopped

        try:
            about = {"name": source.name, "folder": outputs.state}
            imputer.learn_prepared(prepared, **about, progress=show, should_stop=should_stop, begin=True)
            if should_stop():
                return None
            drawing = time.monotonic()
            found = imputer.draw_prepared(prepared, progress=show)
        except _Stopped:
            return None
        end = partial(_finish, imputer=imputer, source=source, spell=spell, say=say, progress=progress, began=began)
        if not imputer.can_improve:
            end(outputs, found)
            return found
        end(outputs, found, first=True)
        spare = _SPARE * (time.monotonic() - drawing)
        better = _improved(imputer, prepared, outputs.state, began, spare, show, should_stop)
        if should_stop():
            say(f"stopped: {outputs.table} holds the first answer; the same command goes on from there")
            return found
        wait = waited(imputer.scores_)
        if not wait.startswith(NOTHING) and (edited := outputs.edited()):
            outputs = outputs.unused()
            say(f"{edited[0]} was changed after it was written: it is kept, the result goes to {outputs.table}")
        end(outputs, better or found, wait=wait)
        return better or found


def _improved(
    imputer: TableImputer, prepared: Prepared, state: Path, began: float, spare: float,
    progress: Callable[[str, int, int], None], should_stop: Callable[[], bool],
) -> Imputation | None:  # fmt: skip
    """A better answer than the first; None where there is none, or it cannot be drawn within the time.

    Args:
        spare: seconds that drawing and writing of the first answer have taken, and some more.
    """
    ends = began + _OVERRUN * 60 * imputer.minutes_within

    def show(what: str, done: int, total: int) -> None:
        progress(what, done, total)
        if what == "imputing" and time.monotonic() > ends - spare / 2:
            raise _TooLate

    try:
        better = imputer.improve_prepared(began, spare=spare, folder=state, progress=progress, should_stop=should_stop)
        return imputer.draw_prepared(prepared, progress=show) if better and not should_stop() else None
    except _TooLate:
        imputer.take_first_back(
            "a better answer was found, but drawing from it takes longer than there is time (minutes)"
        )
    except _Stopped:
        pass
    return None


def _finish(
    outputs: Outputs, found: Imputation, imputer: TableImputer, source: Path, spell: Callable[[str], str],
    say: Callable[[str], None], progress: Callable[[str, int, int], None], began: float, first: bool = False,
    wait: str = "",
) -> None:  # fmt: skip
    """Writes all files and says what was done.

    Args:
        began: ``time.monotonic()`` when the work began.
        first: whether a better answer may follow: the state of its training stays, and the files may be overwritten.
        wait: what was gained since the first answer.
    """
    done = [*_done(imputer, found, time.monotonic() - began), *[("the wait", wait)] * bool(wait)]
    done.append(("files", ", ".join(path.name for path in outputs.files)))
    effort = imputer.effort if imputer.model is None else None
    hints = [*found.hints(), *filter(None, [behind(measured_here(imputer), effort)])]
    content = _content(source, found, done, hints, measured_here(imputer), spell)
    if wait.startswith(NOTHING):  # the other files are those of the first answer
        if outputs.report not in outputs.edited():
            write_report(content, outputs.report)
    else:
        _write(outputs, found, content, source, imputer, progress)
    if not first:
        shutil.rmtree(outputs.state, ignore_errors=True)
    hints = shortened("look", hints, where=f"see {outputs.report.name}")
    if wait.startswith(NOTHING):
        say("\n".join(f"  {name}: {value}" for name, value in done if name in ("delivered", "seconds", "the wait")))
    else:
        say("\n".join([_said(imputer, done), *hints]))
    if first:
        say(f"wrote {outputs.table}, the first answer, which can be used; improving it (Ctrl-C keeps it) ...")
    else:
        say(f"wrote {outputs.table}")


def prepare_file(source: Path, settings: Mapping[str, Any], form: TextForm | None = None) -> Prepared:
    """What ``fill_file`` understands a file to be, and what it would fill; nothing is trained and nothing is written.

    Raises:
        DataError, ConfigError: as ``fill_file``.
    """
    imputer = TableImputer(**settings)
    imputer.check()
    return _prepared(imputer, source, form)


def _prepared(
    imputer: TableImputer,
    source: Path,
    form: TextForm | None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Prepared:
    table = read_file(source, imputer.spec, imputer.time_options, imputer.settings.units, form, progress)
    return imputer.prepared(table)


@contextmanager
def _alone(outputs: Outputs) -> Iterator[None]:
    """Nobody else makes the same files meanwhile; the folder of the state is gone afterwards if nothing is in it."""
    with exclusive_lock(outputs.state, str(outputs.table)):
        try:
            yield
        finally:
            if outputs.state.is_dir() and [path.name for path in outputs.state.iterdir()] == [".lock"]:
                shutil.rmtree(outputs.state, ignore_errors=True)


def _copied(
    outputs: Outputs,
    source: Path,
    prepared: Prepared,
    levels: tuple[float, ...],
    say: Callable[[str], None],
    progress: Callable[[str, int, int], None],
) -> Imputation:
    """The files of a table in which there is nothing to fill: the table to the bit, and no model."""
    codes = prepared.provenance
    parts = zip(prepared.panel.series, codes, strict=True)
    fillings = [Filling(s.values, levels, np.repeat(s.values[None], len(levels), 0), code) for s, code in parts]
    found = imputation_of(prepared, fillings)
    files = replace(outputs, model=None)
    done = [("cells", _counts(found)), ("files", ", ".join(path.name for path in files.files))]
    _write(files, found, _content(source, found, done, (), ()), source, None, progress)
    shutil.rmtree(outputs.state, ignore_errors=True)
    say(f"wrote {outputs.table}")
    return found


def _content(
    source: Path,
    found: Imputation,
    done: Sequence[tuple[str, str]],
    hints: Sequence[str],
    scores: Sequence[Mapping[str, str | float]],
    spell: Callable[[str], str] = str,
) -> ReportContent:
    prepared = found.prepared
    about = [(name, spell(value)) for name, value in prepared.about]
    warnings = [*map(spell, (*prepared.warnings, *hints, *filter(None, [unfilled(prepared)])))]
    return ReportContent(f"{source.name} filled", about, done, warnings, scores, prepared.panel, found.fillings)


def _write(
    outputs: Outputs,
    found: Imputation,
    content: ReportContent,
    source: Path,
    imputer: TableImputer | None,
    progress: Callable[[str, int, int], None],
) -> None:
    """All files, the table last: where it stands, the others do. Without an imputer the table is the source."""
    outputs.begin_writing()
    for path in outputs.files:
        if ending(path) != ".zarr" and not (is_folder_of_files(source) and path in (outputs.table, outputs.provenance)):
            remove_partial(path)
    if outputs.model is not None and imputer is not None:
        imputer.save(outputs.model)
    write_report(content, outputs.report)
    atomic_write(outputs.cells, lambda path: _write_cells(found, path))
    write_object(found.marked(), outputs.provenance, after_a_while(progress, "writing what each cell is"))
    if imputer is None and source.is_file() and ending(source) == ending(outputs.table):
        atomic_write(outputs.table, lambda path: shutil.copyfile(source, path))
    else:
        write_object(found.table, outputs.table, after_a_while(progress, "writing"))
    outputs.end_writing()


_ROWS = 100_000
"""Rows of cells.csv that are made at once, about."""


def _write_cells(found: Imputation, path: Path) -> None:
    """Writes ``Imputation.cells`` in pieces: of thousands of series the whole does not fit beside the rest."""
    labels = np.concatenate([series.labels for series in found.prepared.panel.series])
    in_pieces, form = True, None
    if labels.dtype.kind == "M":  # pandas writes a column of dates shorter, and seconds only as far as there are any
        in_pieces = not (labels != labels.astype("M8[s]")).any()
        form = "%Y-%m-%d %H:%M:%S" if in_pieces and (labels != labels.astype("M8[D]")).any() else None
    parts = _joined(found.cells_by_series()) if in_pieces else [found.cells]
    with path.open("w", encoding="utf-8", newline="") as file:
        for n, part in enumerate(parts):
            part.to_csv(file, index=False, header=not n, float_format="%.8g", date_format=form)


def _joined(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Frames one below the other, as many at once as have about ``_ROWS`` rows; one at least."""
    parts: list[pd.DataFrame] = []
    n_rows = 0
    for frame in frames:
        parts.append(frame)
        n_rows += len(frame)
        if n_rows >= _ROWS:
            yield pd.concat(parts)
            parts, n_rows = [], 0
    if parts:
        yield pd.concat(parts)


def _counts(found: Imputation) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in found.counts().items() if count)


def measured_here(imputer: TableImputer) -> tuple[dict[str, str | float], ...]:
    """What was measured on cells of this file; nothing where the model's file brought it along."""
    return () if imputer.keeps_calibration else imputer.scores_


def _done(imputer: TableImputer, found: Imputation, seconds: float) -> list[tuple[str, str]]:
    model = imputer.imputer_
    if model is None:
        none = "none: what can be filled follows from rules"
        return [("cells", _counts(found)), ("model", none), ("seconds", f"{seconds:.0f}")]
    learnt = f"learnt from the file itself, effort {imputer.effort}" if imputer.model is None else str(imputer.model)
    drawn = f"{imputer.n_samples} draws a cell, {model.sampler}, seed {imputer.seed}"
    calibrated = f"on {imputer.calibration_.n_cells:,} hidden cells" if imputer.calibration_.n_cells else _not(imputer)
    if imputer.keeps_calibration and imputer.calibration_.n_cells:
        calibrated += f" of {imputer.table_.name}, learnt on {imputer.table_.date}; to calibrate on this file instead, "
        calibrated += "set recalibrate=True"
    if not imputer.calibration_.n_cells and (note := few_draws_text(imputer.levels, imputer.n_samples)):
        calibrated += f"; {note}"
    return [
        ("cells", _counts(found)), *[("delivered", imputer.delivered_)] * bool(imputer.delivered_),
        ("model", f"{model.method}, {learnt}"),
        ("draws", drawn), ("calibrated", calibrated), ("seconds", f"{seconds:.0f}"),
    ]  # fmt: skip


def _not(imputer: TableImputer) -> str:
    """That nothing is calibrated, and why."""
    if not imputer.calibrate:
        return "no, as set"
    n_cells = int(imputer.scores_[0]["cells"]) if imputer.scores_ else 0
    return f"no, {uncalibrated_text(n_cells)}"


def _said(imputer: TableImputer, done: list[tuple[str, str]]) -> str:
    lines = [f"  {name}: {value}" for name, value in done]
    scores = measured_here(imputer)
    if scores:
        about = scores[0]
        lines.append(f"  measured on {about['cells']:,} observed cells that were hidden, in {about['units']}:")
    lines += [f"    {row['imputer']}: {', '.join(_numbers(row))}" for row in scores]
    return "\n".join(lines)


def _numbers(row: Mapping[str, str | float]) -> list[str]:
    """Errors, and what share of the hidden values lies in the intervals."""
    texts = [f"{name} {row[name]:.4g}" for name in ("MAE", "RMSE", "CRPS") if name in row]
    covers = [name for name in row if name.startswith("coverage")]
    for kind in dict.fromkeys(name.partition(", ")[2] for name in covers):
        of_kind = [name for name in covers if name.endswith(kind)]
        asked = "/".join(name.split()[1] for name in of_kind)
        texts.append(f"{asked} % intervals {kind} hold {'/'.join(f'{100 * row[n]:.0f}' for n in of_kind)} %")
    return texts
