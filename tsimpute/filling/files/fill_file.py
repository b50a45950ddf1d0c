"""One call from a person's file to the same file filled, with what each cell is and a report beside it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tsimpute.core.quantiles import few_draws_text
from tsimpute.filling.blending.choosing import Scores
from tsimpute.filling.files.outputs import Outputs
from tsimpute.filling.imputer.fitting import check_any_value
from tsimpute.filling.imputer.imputation import Imputation, imputation_of
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.filling.measuring.calibration import uncalibrated_text
from tsimpute.filling.preparing.prepared import (
    NOTHING,
    Prepared,
    behind,
    is_complete,
    shortened,
    understood,
    unfilled,
    waited,
)
from tsimpute.filling.preparing.series import blank_filling
from tsimpute.reports.table_report import ReportContent, write_report
from tsimpute.system.files import exclusive_lock
from tsimpute.system.run import Run, after_a_while, never
from tsimpute.system.terminal import Tell, silent
from tsimpute.tables.sources.files import TextForm, is_folder_of_files, read_file


class _StoppedError(Exception):
    """The call was stopped in the middle of work that cannot be continued later."""


class _TooLateError(Exception):
    """Drawing takes longer than there is time."""


_SPARE, _OVERRUN = 1.25, 1.05
"""Drawing and writing again may take this times as long as the first time; all of it this times its minutes."""


def fill_file(
    source: Path,
    out: Path,
    settings: Mapping[str, Any],
    *,
    form: TextForm | None = None,
    force: bool = False,
    say: Callable[[str], None] = lambda text: None,
    progress: Tell = silent,
    should_stop: Callable[[], bool] = never,
    spell: Callable[[str], str] = str,
) -> Imputation | None:
    """Fills a file; the same call again continues an interrupted one.

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
        force: whether existing files are overwritten.
        say: called with what was understood and done, in words.
        progress, should_stop: see ``TableImputer.fit``.
        spell: spells settings such as "missing_times='keep'" in the report.

    Returns:
        The filled table. None if the call was stopped before anything was written: its state is in a folder next to
        the outputs, and the same call continues from there.

    Raises:
        DataError, ConfigError: the file, a setting or the output is not as expected; nothing is written then. An
            output is also refused if an interrupted call wrote it and somebody changed it since.
        BusyError: another process is filling into the same output.
        OSError: a file cannot be read or written.
    """
    began = time.monotonic()
    imputer = TableImputer().set_params(**settings)
    imputer.check()
    outputs = Outputs.named_after(out, learns=imputer.model is None, is_folder=is_folder_of_files(source))
    outputs.check(source, force)
    with exclusive_lock(outputs.state, str(outputs.table)):
        try:
            outputs.check(source, force)  # another process may just have written them
            run = Run(source.name, outputs.state, progress, should_stop)
            job = _Job(source, outputs, imputer, run, say, spell, began)
            prepared = _read(imputer, source, form, after_a_while(progress, "reading"))
            if imputer.model is None:
                check_any_value(prepared)
            summary = understood(prepared, where=f"see {outputs.report.name}")
            say("\n".join([f"{source}:", summary, *(f"  look: {text}" for text in imputer.ignored())]))
            return _copy(job, prepared) if is_complete(prepared) else _fill(job, prepared)
        except _StoppedError:
            return None
        finally:
            if outputs.state.is_dir() and [path.name for path in outputs.state.iterdir()] == [".lock"]:
                shutil.rmtree(outputs.state, ignore_errors=True)


def prepare_file(source: Path, settings: Mapping[str, Any], form: TextForm | None = None) -> Prepared:
    """What ``fill_file`` understands a file to be, and what it would fill; nothing is trained and nothing is written.

    Raises:
        DataError, ConfigError: as ``fill_file``.
    """
    return _read(TableImputer().set_params(**settings), source, form, lambda done, total: None)


@dataclass(frozen=True)
class _Job:
    """One call of ``fill_file``; ``began`` is its ``time.monotonic()``."""

    source: Path
    outputs: Outputs
    imputer: TableImputer
    run: Run
    say: Callable[[str], None]
    spell: Callable[[str], str]
    began: float


def _read(
    imputer: TableImputer, source: Path, form: TextForm | None, progress: Callable[[int, int], None] | None = None
) -> Prepared:
    reader = imputer.reader()
    table = read_file(
        source, reader.spec, reader.time_options, reader.settings.units, form, progress or (lambda done, total: None)
    )
    return reader.prepared(table)


def _copy(job: _Job, prepared: Prepared) -> Imputation:
    """The files of a table in which there is nothing to fill: the table to the bit, and no model."""
    what = "nothing to fill" if not prepared.table.unfillable else "nothing that can be filled"
    job.say(f"{what}: the output holds the table as it is")
    levels, parts = job.imputer.settings.levels, zip(prepared.panel.series, prepared.provenance, strict=True)
    fillings = [blank_filling(series, codes, levels, None) for series, codes in parts]
    imputation, outputs = imputation_of(prepared, fillings), replace(job.outputs, model=None)
    done = [("cells", _counts(imputation)), ("files", ", ".join(path.name for path in outputs.files))]
    outputs.write(imputation, _content(job, imputation, done), job.source, None, job.run.progress)
    shutil.rmtree(outputs.state, ignore_errors=True)
    job.say(f"wrote {outputs.table}")
    return imputation


def _fill(job: _Job, prepared: Prepared) -> Imputation | None:
    """Fits, samples and writes; a first answer is improved and written again."""
    imputer = job.imputer

    def show(what: str, done: int, total: int) -> None:
        job.run.progress(what, done, total)
        if what != "learning" and job.run.should_stop():
            raise _StoppedError

    run = replace(job.run, progress=show)
    imputer.fit_to_fill(prepared, run)
    if run.should_stop():
        return None
    drawing = time.monotonic()
    first = imputer.draw_prepared(prepared, run)
    if not imputer.can_improve:
        _deliver(job, first)
        return first
    _deliver(job, first, improving=True)
    better = _improved(job, run, prepared, spare=_SPARE * (time.monotonic() - drawing))
    if run.should_stop():
        job.say(f"stopped: {job.outputs.table} holds the first answer; the same command goes on from there")
        return first
    wait = waited(imputer.scores_)
    if not wait.startswith(NOTHING) and (edited := job.outputs.edited()):
        job = replace(job, outputs=job.outputs.unused())
        job.say(f"{edited[0]} was changed after it was written: it is kept, the result goes to {job.outputs.table}")
    _deliver(job, better or first, wait=wait)
    return better or first


def _improved(job: _Job, run: Run, prepared: Prepared, spare: float) -> Imputation | None:
    """A better answer than the first; None if there is none, or drawing it would take too long.

    Args:
        spare: seconds that are reserved for drawing and writing.
    """
    imputer, first = job.imputer, job.imputer.fitted
    seconds = 60 * imputer.minutes_within
    latest = job.began + _OVERRUN * seconds - spare / 2

    def show(what: str, done: int, total: int) -> None:
        run.progress(what, done, total)
        if what == "imputing" and time.monotonic() > latest:
            raise _TooLateError

    try:
        is_better = imputer.improve(run, until=job.began + seconds - spare)
        if is_better and not run.should_stop():
            return imputer.draw_prepared(prepared, replace(run, progress=show))
    except _TooLateError:
        note = "a better answer was found, but drawing from it takes longer than there is time (minutes)"
        assert first.answer is not None
        imputer.take(first.of(replace(first.answer, note=note)).final)
    except _StoppedError:
        pass
    return None


def _deliver(job: _Job, imputation: Imputation, improving: bool = False, wait: str = "") -> None:
    """Writes all files and says what was done.

    Args:
        improving: whether a better answer may follow: the state of the run stays.
        wait: what was gained since the first answer; if nothing, only the report is written again.
    """
    imputer, outputs = job.imputer, job.outputs
    done = _done(imputer, imputation, time.monotonic() - job.began)
    if wait:
        done.append(("the wait", wait))
    done.append(("files", ", ".join(path.name for path in outputs.files)))
    # Scores that came with the model's file were not measured on this table.
    scores = () if imputer.keeps_calibration else imputer.scores_
    effort = imputer.effort if imputer.model is None else None
    better = behind(scores, effort, categories=bool(imputation.prepared.table.category_features))
    hints = [*imputation.hints(), *filter(None, [better, _uncalibrated(imputer)]), *imputer.known_cells()]
    content = _content(job, imputation, done, hints, scores)
    if not wait.startswith(NOTHING):
        outputs.write(imputation, content, job.source, imputer.save, job.run.progress)
        lines = [f"  {name}: {value}" for name, value in done] + _score_lines(scores)
        job.say("\n".join([*lines, *shortened("look", hints, where=f"see {outputs.report.name}")]))
    else:
        if outputs.report not in outputs.edited():
            write_report(content, outputs.report)
        job.say("\n".join(f"  {name}: {value}" for name, value in done if name in ("delivered", "seconds", "the wait")))
    if improving:
        job.say(f"wrote {outputs.table}, the first answer, which can be used; improving it (Ctrl-C keeps it) ...")
    else:
        shutil.rmtree(outputs.state, ignore_errors=True)
        job.say(f"wrote {outputs.table}")


def _content(
    job: _Job, imputation: Imputation, done: Sequence[tuple[str, str]], hints: Sequence[str] = (), scores: Scores = ()
) -> ReportContent:
    """The content of the report."""
    prepared = imputation.prepared
    description = [(name, job.spell(value)) for name, value in prepared.description]
    warnings = [*prepared.warnings, *hints, *filter(None, [unfilled(prepared)])]
    title = f"{job.source.name} filled"
    return ReportContent(
        title, description, done, [*map(job.spell, warnings)], scores, prepared.panel, imputation.fillings,
        calibrated=getattr(job.imputer, "imputer_", None) is None or job.imputer.calibration_.n_cells > 0,
    )  # fmt: skip


def _uncalibrated(imputer: TableImputer) -> str | None:
    """A sentence where too few cells could be hidden to calibrate intervals, with what these hold."""
    if imputer.imputer_ is None or imputer.calibration_.n_cells or not imputer.calibrate:
        return None
    last: Mapping[str, str | float] = imputer.scores_[-1] if imputer.scores_ else {}
    covers = {name.split(" %")[0].split()[-1]: share for name, share in last.items() if name.startswith("coverage")}
    shares = "/".join(f"{100 * float(share):.0f}" for share in covers.values())
    held = f"; of the {last['cells']} hidden cells {shares} % lie in {'/'.join(covers)} % intervals" if covers else ""
    return f"intervals are not calibrated, as too few cells could be hidden, and may be too narrow or too wide{held}"


def _counts(imputation: Imputation) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in imputation.counts().items() if count)


def _done(imputer: TableImputer, imputation: Imputation, seconds: float) -> list[tuple[str, str]]:
    """Name and value of what was done."""
    model, calibration = imputer.imputer_, imputer.calibration_
    cells, took = ("cells", _counts(imputation)), ("seconds", f"{seconds:.0f}")
    if model is None:
        return [cells, ("model", "none: what can be filled follows from rules"), took]
    origin = f"learnt from the file itself, effort {imputer.effort}" if imputer.model is None else str(imputer.model)
    if calibration.n_cells:
        calibrated = f"on {calibration.n_cells:,} hidden cells"
    elif imputer.calibrate:
        calibrated = f"no, {uncalibrated_text(int(imputer.scores_[0]['cells']) if imputer.scores_ else 0)}"
    else:
        calibrated = "no, as set"
    if imputer.keeps_calibration and calibration.n_cells:
        calibrated += f" of {imputer.table_.name}, learnt on {imputer.table_.date}; to calibrate on this file instead, "
        calibrated += "set recalibrate=True"
    draws = f"{imputer.settings.n_samples} draws a cell, {model.sampler}, seed {imputer.seed}"
    if note := few_draws_text(imputer.settings.levels, imputer.settings.n_samples):
        draws += f"; {note}"
    delivered = [("delivered", imputer.delivered_)] if imputer.delivered_ else []
    return [
        cells, *delivered, ("model", f"{model.method}, {origin}"),
        ("draws", draws), ("calibrated", calibrated), took,
    ]  # fmt: skip


def _score_lines(scores: Scores) -> list[str]:
    """Errors on hidden cells and the coverage of intervals, a line for each imputer."""
    if not scores:
        return []
    n_cells, units = scores[0]["cells"], scores[0]["units"]
    lines = [f"  measured on {n_cells:,} observed cells that were hidden, in {units}:"]
    for row in scores:
        parts = [f"{name} {row[name]:.4g}" for name in ("MAE", "RMSE", "CRPS") if name in row]
        covers = [name for name in row if name.startswith("coverage")]
        for kind in dict.fromkeys(name.partition(", ")[2] for name in covers):
            of_kind = [name for name in covers if name.endswith(kind)]
            levels = "/".join(name.split()[1] for name in of_kind)
            shares = "/".join(f"{100 * float(row[name]):.0f}" for name in of_kind)
            parts.append(f"{levels} % intervals {kind} hold {shares} %")
        lines.append(f"    {row['imputer']}: {', '.join(parts)}")
    return lines
