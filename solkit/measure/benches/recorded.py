"""A bench without a GPU: it replays recorded outcomes on a virtual clock.

The recording is a store, a log, another tool's file, or given outcomes. Its space is the recorded
points; anything else raises. A driver is charged the recorded costs and never its own time::

    compile core 1   [handful 1    ][handful 4 ...
    compile core 2   [handful 2 ][handful 3          ]
    GPU                          [ 2 ][1 ]           [ 3 ]

Each core compiles one handful at a time, in the order submitted. The GPU times the first submitted
handful that is compiled; all outcomes of a handful come when the GPU has timed it.

- A cost that is not recorded is assumed: 1 s to compile, 10 calls to time. Such an outcome says so
  under ``assumed_costs`` in `Outcome.extra`.
- A time with no recorded interval counts as exact: `Outcome.low_ms` and `high_ms` stay ``None``.
- Repeats are replayed in the order recorded; the first follows the last. Failures are replayed too.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from solkit.core import Configuration, Device, Outcome, Verdict, canonical
from solkit.core.quantities import settings_text
from solkit.errors import InputError, NotRecordedError
from solkit.measure.benches._base import AHEAD, HANDFUL, Bench, group_handfuls

ASSUMED_COMPILE_S = 1.0
ASSUMED_CALLS = 10
"""They replace costs that are not recorded; issue 15 sets both."""

_CORES = 8
_MOST_LISTED = 8  # kernels, shapes or values in a message

_Point = tuple[str, str, str]  # kernel_id, shape and params as canonical text


@dataclass(frozen=True)
class Cost:
    """The cost of measuring one configuration once."""

    compile_s: float  # seconds of one core
    gpu_s: float  # seconds for which the GPU was held
    assumed: tuple[str, ...] = ()  # which of the two are not recorded


def configuration_of(outcome: Outcome) -> Configuration:
    """Return the configuration of a recorded outcome; its path is the kernel's id."""
    entry_point, how = outcome.entry_point or "kernel", outcome.chosen_by
    return Configuration(
        outcome.kernel_id, entry_point, outcome.shape, outcome.params, chosen_by=how
    )


def recorded_cost(outcome: Outcome, call_ms: float) -> Cost:
    """Return the cost of a recorded outcome; `call_ms` is a call's time if it has none itself."""
    call_ms = call_ms if outcome.time_ms is None else outcome.time_ms
    compile_s, gpu_s = outcome.compile_s, _recorded_gpu_s(outcome)
    recorded = {"compile_s": compile_s, "gpu_s": gpu_s}
    return Cost(
        ASSUMED_COMPILE_S if compile_s is None else compile_s,
        ASSUMED_CALLS * call_ms / 1e3 if gpu_s is None else gpu_s,
        tuple(name for name, cost in recorded.items() if cost is None),
    )


def _recorded_gpu_s(outcome: Outcome) -> float | None:
    """GPU seconds as recorded, else of the first call and all timed ones."""
    if outcome.gpu_s is not None:
        return outcome.gpu_s
    if outcome.samples_ms or outcome.first_call_s is not None:
        warmup_ms = (outcome.warmup_calls or 0) * (outcome.time_ms or 0.0)
        return (outcome.first_call_s or 0.0) + (warmup_ms + sum(outcome.samples_ms)) / 1e3
    never_ran = outcome.verdict in (Verdict.DOES_NOT_COMPILE, Verdict.NOT_MEASURED)
    return 0.0 if never_ran and outcome.time_ms is None else None


class _VirtualClock:
    """The time of a replay, which the bench moves; the GPU is always held."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s

    def gpu_s(self) -> float:
        return self.time_s


@dataclass(frozen=True)
class _Handful:
    """Configurations that one core compiles and the GPU then times together."""

    configurations: Sequence[Configuration]
    outcomes: Sequence[Outcome]
    gpu_s: float
    begun_s: float
    compiled_s: float


class RecordedBench(Bench):
    """Replays a recording; see `solkit.measure.benches.Bench` and this module.

    Args:
        outcomes: the recording, of one GPU.
        device: the GPU, if the recording has several: the catalogue's key, or the recorded name.
        cores: number of cores that compile.

    Raises:
        InputError: the recording is empty, lacks that GPU, or has several and none is chosen.
    """

    def __init__(
        self, outcomes: Iterable[Outcome], device: str | None = None, cores: int = _CORES
    ) -> None:
        rows = sorted(outcomes, key=lambda row: row.created)
        self._device = _only_device(rows, device)
        self._rows = [r for r in rows if r.device == self._device and r.comparison is None]
        self._recording = _Recording(self._rows)
        self._replayed: dict[_Point, int] = {}
        self.clock = _VirtualClock()
        self._cores_free_s = [0.0] * cores
        self._gpu_free_s = 0.0
        self._waiting: list[_Handful] = []
        self._running: _Handful | None = None  # on the GPU until `_gpu_free_s`; see `advance`
        self._timed: deque[tuple[Configuration, Outcome]] = deque()

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        where: str | None = None,
        device: str | None = None,
        cores: int = _CORES,
    ) -> RecordedBench:
        """Return a bench that replays a store, a log, or a file that `solkit data import` accepts.

        Args:
            path: the store's folder, or the file.
            where: a condition in SQL that selects rows of a store.
            device: the GPU, if the recording has several or names none.
            cores: number of cores that compile.

        Raises:
            InputError: it cannot be read, or is not a recording of one GPU.
        """
        if Path(path).is_dir():
            from solkit.datasets.store import Store

            store = Store(path)
            return cls(store.rows(store.where(where)), device, cores)
        from solkit.datasets.formats import Labels, read
        from solkit.datasets.outcomelog import is_outcome_log

        if where is not None:
            raise InputError(f"{path} is a file: only a store can be filtered")
        labels = Labels() if is_outcome_log(path) else Labels(device=device)
        return cls(read(path, labels=labels).rows, device, cores)

    @property
    def device(self) -> Device:
        """The GPU that was recorded.

        Raises:
            UnknownDeviceError: the catalogue does not have it.
        """
        from solkit.roofline.devices import find

        return find(self._device)

    @property
    def pending(self) -> int:
        """Number of submitted configurations without an outcome."""
        running = [] if self._running is None else [self._running]
        untimed = sum(len(handful.configurations) for handful in (*running, *self._waiting))
        return len(self._timed) + untimed

    @property
    def capacity(self) -> int:
        """Number of pending configurations that keep the virtual cores busy."""
        return HANDFUL * AHEAD * len(self._cores_free_s)

    @property
    def recording(self) -> tuple[Outcome, ...]:
        """Every recorded outcome, in the order recorded."""
        return tuple(self._rows)

    def configurations(self) -> tuple[Configuration, ...]:
        """Return every recorded configuration once; its path is the id of the kernel."""
        return tuple(configuration_of(row) for row, *_ in self._recording.rows.values())

    def require_recorded(self, configurations: Sequence[Configuration]) -> None:
        """Raise `NotRecordedError` if one of them is not recorded."""
        for configuration in configurations:
            self._recording.find_point(configuration)

    def submit(self, configurations: Sequence[Configuration]) -> None:
        """Queue configurations; each path is a kernel's id, name or file."""
        points = [self._recording.find_point(configuration) for configuration in configurations]
        place = dict(zip(map(id, configurations), points, strict=True))
        for handful in group_handfuls(configurations):
            self._schedule_compile(
                handful,
                [self._next_recorded(place[id(configuration)]) for configuration in handful],
            )

    def outcomes(self, until_s: float | None = None) -> Iterator[tuple[Configuration, Outcome]]:
        """Yield outcomes in the order of the virtual clock."""
        clock = self.clock
        while self._timed or self._running or self._waiting:
            if self._timed:
                yield self._timed.popleft()
                continue
            if until_s is not None and self.due_s(until_s) is None:
                clock.time_s = max(clock.time_s, until_s)
                return
            self._finish_handful()

    def due_s(self, until_s: float | None = None) -> float | None:
        """Return the time of the next outcome, on the virtual clock.

        ``None`` if nothing is pending, or nothing begins before `until_s`.
        """
        if self._timed:
            return self.clock.time_s
        if self._running is not None:
            return self._gpu_free_s
        if not self._waiting or (until_s is not None and self._next_start_s() >= until_s):
            return None
        return self._next_start_s() + self._first_compiled(self._next_start_s()).gpu_s

    def advance(self, now_s: float) -> None:
        """Move the clock on, to no later than `due_s`: a bench of benches keeps one time for all.

        The GPU starts what it can start until then.
        """
        if not self._running and not self._timed and self.due_s(now_s) is not None:
            self._start_handful()
        self.clock.time_s = max(self.clock.time_s, now_s)

    def discard(self) -> None:
        """Drop what is not being timed; a handful that is compiling keeps its core busy."""
        now_s = self.clock.time_s
        compiling = [
            handful for handful in self._waiting if handful.begun_s <= now_s < handful.compiled_s
        ]
        free = [now_s] * (len(self._cores_free_s) - len(compiling))
        self._cores_free_s = free + [handful.compiled_s for handful in compiling]
        self._waiting.clear()

    def close(self) -> None:
        """Drop everything."""
        self._waiting.clear()
        self._running = None
        self._timed.clear()

    def _next_recorded(self, point: _Point) -> Outcome:
        """Return the next recorded outcome of a point; the first follows the last."""
        place = self._replayed.get(point, 0)
        self._replayed[point] = place + 1
        rows = self._recording.rows[point]
        return rows[place % len(rows)]

    def _schedule_compile(
        self, handful: Sequence[Configuration], outcomes: Sequence[Outcome]
    ) -> None:
        """Give a handful to the core that is free first."""
        costs = [
            recorded_cost(outcome, self._recording.median_call_ms(outcome)) for outcome in outcomes
        ]
        core = min(range(len(self._cores_free_s)), key=self._cores_free_s.__getitem__)
        begun_s = max(self._cores_free_s[core], self.clock.time_s)
        compiled_s = begun_s + sum(cost.compile_s for cost in costs)
        self._cores_free_s[core] = compiled_s
        labelled = [_with_assumed_costs(*pair) for pair in zip(outcomes, costs, strict=True)]
        gpu_s = sum(cost.gpu_s for cost in costs)
        self._waiting.append(_Handful(handful, labelled, gpu_s, begun_s, compiled_s))

    def _next_start_s(self) -> float:
        """Return the time at which the GPU can start on the next handful."""
        first_s = min(handful.compiled_s for handful in self._waiting)
        return max(first_s, self._gpu_free_s, self.clock.time_s)

    def _first_compiled(self, start_s: float) -> _Handful:
        """Return the first submitted handful that is compiled by then."""
        return next(handful for handful in self._waiting if handful.compiled_s <= start_s)

    def _start_handful(self) -> None:
        """Give the next handful to the GPU."""
        start_s = self._next_start_s()
        self._running = self._first_compiled(start_s)
        self._waiting.remove(self._running)
        self._gpu_free_s = start_s + self._running.gpu_s

    def _finish_handful(self) -> None:
        """Move the clock to the end of the next handful."""
        if self._running is None:
            self._start_handful()
        handful, self._running = self._running, None
        assert handful is not None
        self.clock.time_s = self._gpu_free_s
        self._timed.extend(zip(handful.configurations, handful.outcomes, strict=True))


def _with_assumed_costs(outcome: Outcome, cost: Cost) -> Outcome:
    """Return the outcome with its assumed costs."""
    if not cost.assumed:
        return outcome
    assumed = {name: getattr(cost, name) for name in cost.assumed}
    return replace(outcome, extra={**outcome.extra, "assumed_costs": assumed})


def _only_device(rows: Sequence[Outcome], requested: str | None) -> str:
    """Return the recorded name of the requested GPU; raises `InputError` unless it is one."""
    from solkit.roofline.devices import catalogue_key

    recorded = sorted({row.device for row in rows})
    if not recorded:
        raise InputError("no recorded row to replay")
    names = {requested, catalogue_key(requested)} if requested is not None else set(recorded)
    devices = [device for device in recorded if device in names]
    if len(devices) != 1:
        why = "several GPUs are recorded" if requested is None else f"{requested!r} is not recorded"
        raise InputError(f"{why}; choose one of: {', '.join(recorded)}")
    return devices[0]


class _Recording:
    """Outcomes by point (kernel, shape and params), in the order in which they are replayed."""

    def __init__(self, rows: Sequence[Outcome]) -> None:
        self.rows: dict[_Point, list[Outcome]] = {}
        self._shapes: dict[str, dict[str, list[Outcome]]] = {}
        for row in rows:
            shape = canonical(row.shape)
            self.rows.setdefault((row.kernel_id, shape, canonical(row.params)), []).append(row)
            self._shapes.setdefault(row.kernel_id, {}).setdefault(shape, []).append(row)
        self._names: dict[str, str] = {}
        for row in rows:
            name = row.implementation or row.entry_point or row.family
            self._names.setdefault(row.kernel_id, name)
        self._call_ms: dict[tuple[str, str], float] = {}

    def median_call_ms(self, outcome: Outcome) -> float:
        """Return the median time of the kernel at the shape; 0 if nothing there has a time."""
        cell = outcome.kernel_id, canonical(outcome.shape)
        if cell not in self._call_ms:
            rows = self._shapes[cell[0]][cell[1]]
            times_ms = [row.time_ms for row in rows if row.time_ms is not None]
            self._call_ms[cell] = median(times_ms) if times_ms else 0.0
        return self._call_ms[cell]

    def find_point(self, configuration: Configuration) -> _Point:
        """Return the recorded point of a configuration.

        Raises:
            NotRecordedError: there is none.
        """
        kernel = self._find_kernel(configuration)
        shape = self._find_shape(kernel, configuration.shape)
        point = kernel, shape, canonical(configuration.params)
        if point not in self.rows:
            rows = self._shapes[kernel][shape]
            raise NotRecordedError(
                f"{self._names[kernel]} at {_format_sizes(rows[0].shape)} is not recorded with "
                f"{_format_sizes(configuration.params)}; recorded: {_describe_space(rows)}"
            )
        return point

    def _find_kernel(self, configuration: Configuration) -> str:
        """Return the id of a configuration's kernel; the path is that id, a name or a file."""
        path = configuration.path
        if path in self._names:
            return path
        named = [kernel for kernel, name in self._names.items() if name == path]
        if not named and Path(path).is_file():
            from solkit.datasets.kernels import kernel_at_path

            entry_point, reference = configuration.entry_point, configuration.reference
            kernel_id = kernel_at_path(path, entry_point, reference).kernel_id
            named = [kernel_id] if kernel_id in self._names else []
        if len(named) != 1:
            why = f"{len(named)} kernels are called {path!r}" if named else f"no kernel {path!r}"
            kernels = [f"{name} ({kernel})" for kernel, name in self._names.items()]
            raise NotRecordedError(f"{why}; recorded: {list_values(kernels)}")
        return named[0]

    def _find_shape(self, kernel: str, shape: Mapping[str, object]) -> str:
        """Return the recorded shape with these sizes, as canonical text."""
        shapes = self._shapes[kernel]
        if (exact := canonical(shape)) in shapes:
            return exact
        matches = [
            text
            for text, (row, *_) in shapes.items()
            if canonical(shape) == canonical({k: v for k, v in row.shape.items() if k in shape})
        ]
        if len(matches) != 1:
            why = "is recorded at several shapes" if matches else "is not recorded"
            recorded = list_values([_format_sizes(row.shape) for row, *_ in shapes.values()])
            raise NotRecordedError(
                f"{self._names[kernel]} at {_format_sizes(shape)} {why}; recorded: {recorded}"
            )
        return matches[0]


def _format_sizes(values: Mapping[str, object]) -> str:
    return settings_text(values, "its default")


def list_values(values: Sequence[object]) -> str:
    """Return the first values, and how many more there are."""
    shown = "; ".join(map(str, values[:_MOST_LISTED]))
    remaining = len(values) - _MOST_LISTED
    return f"{shown}; and {remaining} more" if remaining > 0 else shown


def _describe_space(rows: Sequence[Outcome]) -> str:
    """Return the number of configurations, and the values of each parameter."""
    values: dict[str, dict[str, object]] = {}
    for row in rows:
        for name, value in row.params.items():
            values.setdefault(name, {})[canonical({name: value})] = value
    count = len({canonical(row.params) for row in rows})
    names = (
        f"{name} of {', '.join(map(str, list(choices.values())[:_MOST_LISTED]))}"
        + (", ..." if len(choices) > _MOST_LISTED else "")
        for name, choices in values.items()
    )
    return f"{count} configurations, with {'; '.join(names)}"
