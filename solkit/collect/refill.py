"""Facts for rows that were measured before: analysed again from their sources, without a GPU.

The kernels are the checkout's if it still has them, else the sources that the rows refer to. A row
is analysed only with the tools that compiled it, since others generate other code: its Triton, and
what `solkit.datasets.facts.tools_made_with` names. What a launch was launched with does not depend
on them, so captured facts are made with whatever is at hand.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from solkit.analysis.analyser import Analysed, Analyser
from solkit.core import Configuration, Depth, Outcome, Source, StoredFacts, canonical
from solkit.datasets.facts import (
    depth_reached,
    facts_id,
    facts_to_json,
    nvrtc_release,
    tools_made_with,
)
from solkit.datasets.kernels import select_kernels
from solkit.datasets.outcomelog import Contents, OutcomeLog, RowKey
from solkit.errors import UnknownDeviceError
from solkit.roofline.devices import find

_BATCH = 32
_ROUND = 4  # configurations of a kernel and shape: with fewer, files change too often
_KEPT_S = 900.0  # of a kernel in Triton's cache, where each configuration leaves 0.2 MB
_TRIMMED_EVERY = 512  # configurations


@dataclass
class Progress:
    """Progress of a refill, in rows."""

    total: int = 0  # rows that can be refilled here and have no facts yet
    done: int = 0  # of these, rows that have facts now
    # rows that cannot be refilled, by the reason
    left_out: Counter[str] = field(default_factory=Counter)
    failed: int = 0  # rows whose analysis failed; `why` has the first reasons
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """The rows of one configuration: their facts are the same."""

    configuration: Configuration  # to analyse
    device: str  # the catalogue's name of a GPU with these facts
    facts_id: str  # of the facts
    rows: list[RowKey]  # run and place of each
    depth: Depth = Depth.COMPILED  # of the facts


def refill_facts(
    rows: Iterable[Outcome],
    sources: Sequence[Source],
    log: OutcomeLog,
    held: Contents,
    workers: int | None = None,
    show: Callable[[Progress], None] = lambda _: None,
    depth: Depth = Depth.COMPILED,
) -> Progress:
    """Write the facts of rows to a log, with a link from each row to its facts.

    Args:
        rows: of any stores or logs; rows with the facts of this version are skipped.
        sources: that the rows refer to.
        log: receives the facts in batches.
        held: the log's contents: facts there are not computed again.
        workers: number of processes; one per core by default.
        show: called after each batch.
        depth: of the analysis; CUDA C++ is compiled at the lowered depth. A row refers to its
            compiled facts; lowered ones are found by their key, so they are written without links.

    Returns:
        The progress.

    Raises:
        TraceError: the log could not be written; what it holds is safe.
    """
    progress = Progress()
    facts_ids = {entry.id for entry in held.facts}
    with tempfile.TemporaryDirectory(prefix="solkit-refill-") as folder:
        groups = group_rows(rows, sources, Path(folder), progress, held.facts_of, depth)
        kept = [(group, None) for group in groups if group.facts_id in facts_ids]
        _write_batch(log, kept, progress)
        batch: list[tuple[Group, str | None]] = []
        unknown = [group for group in groups if group.facts_id not in facts_ids]
        for group, text, why in fresh_facts(unknown, workers, depth):
            if text is None:
                progress.failed += len(group.rows)
                progress.why = (*progress.why, f"{_group_name(group)}: {why}")[:5]
            else:
                batch.append((group, text))
            if len(batch) == _BATCH:
                _write_batch(log, batch, progress)
                batch = []
                show(progress)
        _write_batch(log, batch, progress)
    return progress


def group_rows(
    rows: Iterable[Outcome],
    sources: Sequence[Source],
    folder: Path,
    progress: Progress,
    held: Mapping[RowKey, str] = MappingProxyType({}),
    depth: Depth = Depth.COMPILED,
) -> list[Group]:
    """Group rows by their configuration, in rounds, so that a part of them is a fair sample.

    A round has `_ROUND` configurations of each kernel and shape, those of one file together. Rows
    that have the facts of this version, by their own `facts_id` or by `held`, are left out.
    Sources that the checkout lacks are written to `folder`, which must outlive the groups.
    `progress` counts the rows that can, and cannot, be analysed here.
    """
    files = _Files(sources, folder)
    triton, torch = (importlib.metadata.version(name) for name in ("triton", "torch"))
    cuda = nvrtc_release()
    needs_tools = depth is not Depth.CAPTURED  # a launch's record holds no code
    groups: dict[str, Group] = {}
    for row in rows:
        file, on = files.of(row), _with_target(row)
        is_other = needs_tools and row.triton_version != triton
        if file is None or on is None or is_other:
            progress.left_out[_skip_reason(row, triton if is_other else None, on)] += 1
            continue
        theirs = tools_made_with(file.text, row.torch_version, row.cuda_version)
        ours = tools_made_with(file.text, torch, cuda)
        if needs_tools and theirs != ours:
            progress.left_out[f"made with {', '.join(theirs)}, not {', '.join(ours)}"] += 1
            continue
        key = facts_id(on, file.text, depth)
        if key in (row.facts_id, held.get((row.run_id, row.sequence))):
            continue
        progress.total += 1
        if key not in groups:
            entry_point = row.entry_point or "kernel"
            configuration = Configuration(
                file.path, entry_point, row.shape, row.params, file.reference
            )
            groups[key] = Group(configuration, row.device, key, [], depth_reached(file.text, depth))
        groups[key].rows.append((row.run_id, row.sequence))
    return _order_in_rounds(groups.values())


def _order_in_rounds(groups: Iterable[Group]) -> list[Group]:
    cells: defaultdict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in sorted(groups, key=lambda group: group.facts_id):  # a hash: a random order
        cells[group.configuration.path, canonical(group.configuration.shape)].append(group)
    placed = [
        (place // _ROUND, group) for cell in cells.values() for place, group in enumerate(cell)
    ]
    return [
        group for _, group in sorted(placed, key=lambda pair: (pair[0], pair[1].configuration.path))
    ]


def fresh_facts(
    groups: Sequence[Group], workers: int | None = None, depth: Depth = Depth.COMPILED
) -> Iterator[tuple[Group, str | None, str]]:
    """Analyse configurations, in the order in which they are ready.

    Yields:
        A group, its facts as `facts_to_json` writes them, or ``None`` and why there are none.
    """
    by_device: defaultdict[str, list[Group]] = defaultdict(list)
    homes: dict[tuple[object, ...], str] = {}
    for group in groups:
        device = find(group.device)
        home = homes.setdefault((device.compute_capability, device.sm_count), group.device)
        by_device[home].append(group)
    with tempfile.TemporaryDirectory(prefix="solkit-refill-") as folder:
        env = {"TRITON_CACHE_DIR": folder}  # or the user's would fill with code needed once
        for name, members in by_device.items():
            group_by_id = {id(group.configuration): group for group in members}
            with Analyser(name, workers=workers, cache=False, env=env) as analyser:
                configurations = (group.configuration for group in members)
                for number, analysed in enumerate(analyser.analysed(configurations, depth), 1):
                    if number % _TRIMMED_EVERY == 0:
                        _trim_cache(Path(folder))
                    yield group_by_id[id(analysed.configuration)], *_facts_and_reason(analysed)


def _facts_and_reason(analysed: Analysed) -> tuple[str | None, str]:
    analysis = analysed.analysis
    if analysis is None:
        return None, str(analysed.error)
    if not (analysis.is_whole and analysis.kernels):
        return None, " ".join(analysis.notes)
    for facts in (kernel.facts for kernel in analysis.kernels):
        is_unread = facts.registers is None and facts.error is None
        needs_code = facts.depth is not Depth.CAPTURED and not facts.launch.library
        if is_unread and needs_code:  # this machine lacks a header, say
            return None, " ".join(facts.notes)
    return facts_to_json([kernel.facts for kernel in analysis.kernels]), ""


def _trim_cache(folder: Path) -> None:
    """Remove kernels from Triton's cache that no worker uses any more."""
    oldest = time.time() - _KEPT_S
    for entry in folder.iterdir():
        if entry.stat().st_mtime < oldest:
            shutil.rmtree(entry, ignore_errors=True)


def _with_target(row: Outcome) -> Outcome | None:
    """Return the row with the GPU's compute capability and SM count, which version 1 lacks."""
    try:
        device = find(row.device)
    except UnknownDeviceError:
        return None
    if row.sm_count not in (None, device.sm_count):  # a slice of one
        return None
    return replace(row, compute_capability=device.compute_capability, sm_count=device.sm_count)


def _skip_reason(row: Outcome, triton: str | None, on: Outcome | None) -> str:
    if triton is not None:
        return f"compiled by Triton {row.triton_version}, not {triton}"
    return "not a whole GPU of the catalogue" if on is None else "the source is not known"


def _write_batch(
    log: OutcomeLog, batch: Sequence[tuple[Group, str | None]], progress: Progress
) -> None:
    compiled = [group for group, _ in batch if group.depth is Depth.COMPILED]
    links = {place: group.facts_id for group in compiled for place in group.rows}
    facts = [StoredFacts(group.facts_id, text) for group, text in batch if text is not None]
    if batch:
        log.append(facts=facts, facts_of=links)
        progress.done += sum(len(group.rows) for group, _ in batch)


def _group_name(group: Group) -> str:
    config = group.configuration
    return f"{Path(config.path).name} {dict(config.params)} at {dict(config.shape)}"


@dataclass(frozen=True)
class _File:
    """A kernel file: its path, its reference's if that is another file, and its text."""

    path: str
    reference: str | None
    text: str


class _Files:
    """Kernel files by the kernel id of rows."""

    def __init__(self, sources: Sequence[Source], folder: Path) -> None:
        self._known: dict[str, _File | None] = {
            kernel.kernel_id: _File(str(kernel.path), None, kernel.source.text)
            for kernel in select_kernels(["zoo", "inductor", "languages", "libraries"])
        }
        self._sources = {source.sha256: source for source in sources}
        self._folder = folder

    def of(self, row: Outcome) -> _File | None:
        """Return a row's kernel file; ``None`` if it is unknown."""
        if row.kernel_id not in self._known:
            self._known[row.kernel_id] = self._write_files(row)
        return self._known[row.kernel_id]

    def _write_files(self, row: Outcome) -> _File | None:
        paths, texts = [], []
        for place, sha256 in enumerate((row.source_sha256, row.problem_sha256)):
            source = self._sources.get(sha256 or "")
            if source is None or not source.name.endswith(".py"):
                return None
            path = self._folder / row.kernel_id / str(place) / Path(source.name).name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.text, encoding="utf-8")
            paths.append(str(path))
            texts.append(source.text)
        is_one_file = row.source_sha256 == row.problem_sha256
        return _File(paths[0], None if is_one_file else paths[1], texts[0])
