"""Sources of tuned parameters: `solkit tune`'s JSON, a log, a database, a foreign file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from solkit.core import (
    Difference,
    Final,
    Outcome,
    Ratio,
    Stopped,
    TimedParams,
    Tuned,
    TuneVerdict,
    Value,
)
from solkit.core.codec import from_json, to_json
from solkit.core.outcomes import canonical
from solkit.core.tuned import Speedup, TunedEntry, TunedFolder
from solkit.datasets import tuned_folder
from solkit.errors import InputError
from solkit.tuner.tuning_results import Key, TuningResult, finding_of, results_of_runs

TUNE_SCHEMA = "solkit.tune/1"


def read_results(
    path: str | os.PathLike[str],
    device: str | None = None,
    kernel: str | None = None,
    complain: Callable[[str], object] = lambda _: None,
) -> tuple[TuningResult, ...]:
    """Return what tuning found, as a file or folder holds it.

    Args:
        path: a database (a folder, or a server's URL) or another store, a tuned folder, a log, the
            JSON of `solkit tune` (``solkit.tune/1``), or a file that `solkit data import` reads.
        device: the GPU, if the file of another tool does not name it; of a database, only results
            of this GPU.
        kernel: of a database, only this kernel, by its name or its id.
        complain: gets a sentence for each record of a file that cannot be read.

    Raises:
        InputError: it cannot be read.
    """
    if isinstance(path, str) and "://" in path:
        from solkit.tuner.database import Database

        return Database(path).findings(device=device)
    path = Path(path)
    if (path / tuned_folder.FILE).is_file():
        results = results_of_tuned_folder(tuned_folder.read_tuned_folder(path), path)
        return tuple(r for r in results if device in (None, r.key.device))
    if path.is_dir():
        return results_of_runs(_stored_rows(path, device, kernel))
    document = _read_json(path) if path.suffix == ".json" else None
    if isinstance(document, Mapping) and document.get("schema") == TUNE_SCHEMA:
        try:
            tuned = parse_tune_result(document)
        except (KeyError, TypeError, ValueError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else error
            raise InputError(f"{path} cannot be read as {TUNE_SCHEMA}: {why}") from error
        return (finding_of(tuned, logged_rows(tuned)),)
    from solkit.datasets.formats import Labels
    from solkit.datasets.formats import read as imported
    from solkit.datasets.outcomelog import is_outcome_log

    try:
        whole = imported(path, labels=Labels())
    except InputError:
        if device is None or is_outcome_log(path):
            raise
        whole = imported(path, labels=Labels(device=device))
    for fault in whole.faults:
        complain(fault)
    return results_of_runs(whole.rows)


def results_of_tuned_folder(tuned: TunedFolder, folder: Path) -> tuple[TuningResult, ...]:
    """Return a tuned folder's entries as results; sizes are those of their buckets.

    A tensor's sizes are called by its name and axis: ``x_0``. Without a head-to-head that shows a
    gain, the result is what was in use.
    """
    written = datetime.fromtimestamp((folder / tuned_folder.FILE).stat().st_mtime, timezone.utc)
    return tuple(_result_of_entry(entry, tuned, written) for entry in tuned.entries)


def _result_of_entry(entry: TunedEntry, tuned: TunedFolder, written: datetime) -> TuningResult:
    is_faster = entry.speedup is not None and entry.speedup.low > 1
    versions = {"triton_version": tuned.triton or None, "torch_version": tuned.torch or None}
    return TuningResult(
        Key(entry.program, canonical(to_json(entry.bucket)), tuned.device, None, **versions),
        entry.kernel,
        _sizes_of_entry(entry),
        run_id=entry.source or tuned_folder.FILE,
        incumbent=TimedParams(dict(entry.in_use)),
        winner=TimedParams(dict(entry.params)),
        verdict=TuneVerdict.FASTER if is_faster else TuneVerdict.KEEP,
        confirmed=entry.speedup is not None,
        ratio=None if entry.speedup is None else _ratio_of_speedup(entry.speedup),
        why="",
        times={},
        measured=0,
        gpu_s=None,
        begun=written,
        ended=written,
    )


def _sizes_of_entry(entry: TunedEntry) -> dict[str, Value]:
    axes = {
        f"{name}_{axis}": size
        for name, shape in entry.bucket.shapes.items()
        for axis, size in enumerate(shape)
    }
    return {**axes, **entry.bucket.constants, **entry.bucket.scalars}


def _ratio_of_speedup(speedup: Speedup) -> Ratio:
    return Ratio(1 / speedup.value, 1 / speedup.high, 1 / speedup.low, resolution=0.0, turns=0)


def _stored_rows(folder: Path, device: str | None, kernel: str | None) -> Iterator[Outcome]:
    """Return the rows of a store: those of a kernel and GPU alone are read."""
    from solkit.datasets.store import Store
    from solkit.datasets.tables import polars_module

    pl, store = polars_module(), Store(folder)
    rows = store.scan()
    if device is not None:
        rows = rows.filter(pl.col("device") == device)
    if kernel is not None:
        is_named = pl.col("implementation").str.ends_with(kernel)
        rows = rows.filter(is_named | (pl.col("kernel_id") == kernel))
    return store.rows(rows)


def logged_rows(tuned: Tuned) -> tuple[Outcome, ...]:
    """Return the rows of a result's log; none if it has no log, or it is gone."""
    from solkit.datasets import outcomelog

    if tuned.log is None or not Path(tuned.log).is_file():
        return ()
    return outcomelog.read(tuned.log).rows


def parse_tune_result(document: Mapping[str, Any]) -> Tuned:
    """Return the result in the JSON of `solkit tune`.

    Args:
        document: an object whose schema is ``solkit.tune/1``.

    Raises:
        KeyError, TypeError, ValueError: a field is missing or invalid.
    """
    final, speedup = document["final"], document["speedup"]
    return Tuned(
        **{name: document[name] for name in _SAME},
        default=_parse_timed_params(document["default"]),
        best=None if document["best"] is None else _parse_timed_params(document["best"]),
        verdict=TuneVerdict(document["verdict"]),
        final=None if final is None else _parse_final(final, speedup),
        stopped=Stopped(document["stopped"]),
        environment=document.get("versions", {}),
    )


_SAME = (
    *("kernel", "kernel_id", "problem_id", "shape", "device", "sol_ms", "measured", "failed"),
    *("gpu_s", "final_s", "log"),
)


def _parse_timed_params(document: Mapping[str, Any]) -> TimedParams:
    return from_json(
        TimedParams,
        {
            "params": document["params"],
            "time_ms": document["time_ms"],
            "low_ms": document.get("low"),
            "high_ms": document.get("high"),
        },
    )


def _parse_final(document: Mapping[str, Any], speedup: Mapping[str, Any] | None) -> Final:
    """Return the head-to-head; the JSON has the ratio inverted, and not its resolution."""
    ratio = None
    if speedup is not None and speedup["high"] is not None:
        value, low, high = 1 / speedup["value"], 1 / speedup["high"], 1 / speedup["low"]
        ratio = Ratio(value, low, high, resolution=0.0, turns=document["turns"])
    difference = Difference(document["difference"])
    return Final(
        document["params"], difference, ratio, document["how"], tuple(document["evidence"])
    )


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist") from error
    except (OSError, ValueError):  # another format's reader says what is wrong
        return None
