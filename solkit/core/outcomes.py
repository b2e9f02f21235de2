"""The outcome of one configuration on one GPU: the record that every loop writes.

An `Outcome` is self-contained: what ran, how, on what, and the result, failures included. Outcomes
of one configuration (`Outcome.key`) are repeats; the run and the position in it (`ROW_KEY`) tell
them apart. The schema is version `SCHEMA_VERSION`: fields may be added, with defaults; none is
renamed, removed or changes its unit or meaning.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from solkit.core.measurement import Verdict
from solkit.core.reports import Difference, Ratio
from solkit.core.values import SCHEMA_VERSION, Value, finite

CONFIGURATION = ("kernel_id", "problem_id", "params", "device")
"""The columns that name a row's configuration: rows that share them are repeats."""

ROW_KEY = ("run_id", "sequence")
"""The columns that identify a row."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


HOPELESS = 2.0
"""`Configuration.hopeless_ms` of a search is so many times the best time: more samples of a slower
one would change nothing."""


@dataclass(frozen=True)
class Configuration:
    """One candidate at one shape with one choice of parameters: what a bench is asked to measure.

    Attributes:
        path: the kernel file.
        entry_point: the function to call.
        shape: sizes that override the file's defaults.
        params: the candidate's tuning parameters.
        reference: the file with the reference, if `path` lacks one.
        chosen_by: how it was chosen; see `Outcome.chosen_by`.
        hopeless_ms: a call that takes longer is of no interest: a bench may take fewer samples.
    """

    path: str
    entry_point: str
    shape: Mapping[str, Value] = field(default_factory=dict)
    params: Mapping[str, Value] = field(default_factory=dict)
    reference: str | None = None
    chosen_by: str = "default"
    hopeless_ms: float | None = None

    @functools.cached_property
    def key(self) -> str:
        """Key that tells candidates of one problem apart."""
        return f"{self.path} {canonical(self.shape)} {canonical(self.params)}"


@dataclass(frozen=True)
class Source:
    """A file that rows refer to by its hash; stored once for all of them.

    Attributes:
        sha256: of its bytes, in hexadecimal.
        name: the file's name, or its path in its collection.
        text: its content.
    """

    sha256: str
    name: str
    text: str


@dataclass(frozen=True)
class StoredFacts:
    """The facts of one configuration; stored once for all rows that refer to them.

    Attributes:
        id: their content key: `Outcome.facts_id` of the rows that refer to them.
        text: the facts as JSON.
    """

    id: str
    text: str


@dataclass(frozen=True)
class LiveLaunch:
    """One kernel launch that was recorded while the candidate ran.

    Attributes:
        name: the kernel's function name.
        grid: thread blocks in x, y and z.
        num_warps: warps per block.
        num_stages: software-pipelining depth.
        num_ctas: blocks per cluster.
        count: how often one call makes this launch.
        constants: compile-time constants by argument name.
        signature: argument types by name, in Triton's notation.
        registers: per thread; ``None`` (and so for all below) where it is not known.
        spills: spilled 32-bit words per thread.
        shared_bytes: shared memory per block.
        tensor_cores: whether it has tensor-core instructions.
        error: why nothing more is known.
    """

    name: str
    grid: tuple[int, ...]
    num_warps: int | None = None
    num_stages: int | None = None
    num_ctas: int | None = None
    count: int = 1
    constants: Mapping[str, Value] = field(default_factory=dict)
    signature: Mapping[str, str] = field(default_factory=dict)
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    tensor_cores: bool | None = None
    error: str | None = None


@dataclass(frozen=True)
class ComparedBase:
    """The base that a row's candidate was compared with in turns, and the result.

    Problem and GPU are the row's. `Outcome.samples_ms` holds the candidate's times.

    Attributes:
        kernel_id, params, entry_point, source_sha256, path: the base's, as in `Outcome`.
        difference: what the ratio shows.
        ratio: the candidate's time over the base's; ``None`` if not compared.
        samples_ms: the base's times, one for each of `Outcome.samples_ms`.
    """

    kernel_id: str
    params: Mapping[str, Value]
    difference: Difference
    entry_point: str | None = None
    source_sha256: str | None = None
    path: str | None = None
    ratio: Ratio | None = None
    samples_ms: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """One attempt to run one configuration of a kernel on one problem and GPU.

    Unknown values are ``None`` or empty. A time is one call's: last end minus first start over
    everything that it runs on the GPU.

    Attributes:
        kernel_id: which kernel: `kernel_id` of its sources and entry point.
        family: what it computes, e.g. ``"softmax"``; of Inductor's, the template.
        kind: the kind of the family, e.g. ``"matmul"``, ``"norm"``, ``"inductor"``.
        origin: the kernel's source: ``"zoo"``, ``"inductor"``, ``"library"``, ``"score"``, or the
            imported format.
        problem_id: family, shape and dtypes, readable: `problem_id`.
        device: the GPU: its catalogue key, e.g. ``"h100-sxm"``, or its name if it has none.
        params: the configuration: every tuning parameter with its value.
        verdict: how the attempt ended.
        created: when it ended, in UTC.
        chosen_by: how the configuration was chosen: ``"random"``, ``"latin_hypercube"``,
            ``"near_best"``, ``"repeat"`` (timed before, in another run), ``"default"``,
            ``"exhaustive"``, ``"search"``, ``"tuned"`` (the best known).
        time_ms: median time.
        bound_ms: the roofline.
        clock_mhz: median SM clock during timing.
        run_id, sequence: the run and the position in it, assigned by
            `solkit.datasets.outcomelog.OutcomeLog`; for imported rows the format, the day if known,
            and a digest of the row.
        implementation: the kernel's file, by its name in its collection.
        entry_point: the function that is called.
        source_sha256, problem_sha256: of the kernel's file and the reference's, in hexadecimal: a
            `Source` each.
        shape: every size, and other inputs such as dtypes, with its value.
        dtypes: of the inputs, then of the outputs, e.g. ``"bfloat16"``.
        low_ms, high_ms: 95 % interval of the median.
        samples_ms: every valid time, in the order measured; stored in single precision.
        kernel_sum_ms: median of the summed kernel times.
        reference_ms: median time of the reference, taken in the same way.
        method: ``"cupti"``, ``"events"``, ``"graph replay"`` or ``"wall clock"``.
        protocol: the name of the timing protocol.
        l2: ``"cold"`` or ``"warm"``.
        flush: how, in words.
        launched: ``"eager"`` or ``"graph"``.
        warmup_calls: untimed calls before.
        hard_bound_ms: what no correct implementation can beat.
        hard_evidence: what that rests on: `solkit.core.Bound.hard_evidence`.
        limiter: the resource behind the roofline.
        precision: what contractions may be computed in, for the bound.
        operations: at the least, by pipe: FLOPs, or ops of pipes that have no floating point.
        read_bytes, write_bytes: that must cross DRAM.
        facts_id: the facts of the configuration: `StoredFacts.id`.
        live_launches: Triton launches recorded in the real run; empty if the facts say the same.
        launch_count: kernels, copies and memsets that a call ran on the GPU.
        compile_s: seconds that compiling took; 0 from a cache.
        first_call_s: seconds of the first call, by the host's clock.
        gpu_s: seconds for which the GPU was held for it; of what is timed together, its share.
        max_error: largest ``|got - want|`` over all outputs.
        message: why it failed, or what limits the measurement: `evidence` in one text.
        evidence: why, a sentence each, a summary first.
        reference_samples_ms: every valid time of the reference, in the order measured.
        rtol, atol: the file's own tolerance; ``None``: that of the outputs' dtype.
        time_limit_s: seconds after which the candidate's process is killed.
        calibrated_bound_ms: the roofline at calibrated rates.
        observed_clock_bound_ms: the roofline at the SM clock seen during timing.
        comparison: the base that the candidate was timed in turns with. The samples are of these
            turns, and there is no `time_ms`; each of the two also has its own row.
        clock_low_mhz, memory_clock_mhz: lowest SM clock and median memory clock during timing.
        power_w, power_high_w, temperature_c: median and highest power, highest temperature.
        throttle_reasons: each reason's share of NVML's answers, 0 to 1.
        condition_samples: number of NVML queries during timing.
        neighbours: why other users of the GPU could not be seen; empty if they could.
        seed: of the inputs.
        inputs_digest: digest of the file's own inputs that it was checked on; those of timed calls
            are drawn anew (`timed_inputs`).
        device_name, device_uuid: from the driver.
        compute_capability, sm_count: of the GPU, e.g. ``(9, 0)`` and 132.
        max_clock_mhz: the SM clock that the bound assumes.
        device_notes: power limit, ECC, MIG slice and the like.
        driver_version, cuda_version, torch_version, triton_version, python_version, solkit_version:
            of the software used.
        platform: operating system and machine, as Python names them.
        path, problem_path: the kernel's file and the reference's, absolute.
        problem_format: of the reference's file: `Problem.format`.
        extra: other fields of an imported file, under their own names.
        schema_version: the schema version in which the row was first written.
        timed_inputs: `solkit.core.Protocol.timed_inputs`; ``None`` in older rows: ``"same"``.
    """

    kernel_id: str
    family: str
    kind: str
    origin: str
    problem_id: str
    device: str
    params: Mapping[str, Value]
    verdict: Verdict
    created: datetime
    chosen_by: str
    time_ms: float | None = None
    bound_ms: float | None = None
    clock_mhz: float | None = None
    run_id: str = ""
    sequence: int = 0
    implementation: str | None = None
    entry_point: str | None = None
    source_sha256: str | None = None
    problem_sha256: str | None = None
    shape: Mapping[str, Value] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    low_ms: float | None = None
    high_ms: float | None = None
    samples_ms: tuple[float, ...] = ()
    kernel_sum_ms: float | None = None
    reference_ms: float | None = None
    method: str | None = None
    protocol: str | None = None
    l2: str | None = None
    flush: str | None = None
    launched: str | None = None
    warmup_calls: int | None = None
    hard_bound_ms: float | None = None
    limiter: str | None = None
    precision: str | None = None
    operations: Mapping[str, int] = field(default_factory=dict)
    read_bytes: int | None = None
    write_bytes: int | None = None
    facts_id: str | None = None
    live_launches: tuple[LiveLaunch, ...] = ()
    launch_count: int | None = None
    compile_s: float | None = None
    first_call_s: float | None = None
    gpu_s: float | None = None
    max_error: float | None = None
    message: str | None = None
    evidence: tuple[str, ...] = ()
    reference_samples_ms: tuple[float, ...] = ()
    rtol: float | None = None
    atol: float | None = None
    time_limit_s: float | None = None
    calibrated_bound_ms: float | None = None
    observed_clock_bound_ms: float | None = None
    comparison: ComparedBase | None = None
    clock_low_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    power_high_w: float | None = None
    temperature_c: float | None = None
    throttle_reasons: Mapping[str, float] = field(default_factory=dict)
    condition_samples: int | None = None
    neighbours: tuple[str, ...] = ()
    seed: int | None = None
    inputs_digest: str | None = None
    device_name: str | None = None
    device_uuid: str | None = None
    compute_capability: tuple[int, ...] = ()
    sm_count: int | None = None
    max_clock_mhz: float | None = None
    device_notes: tuple[str, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None
    torch_version: str | None = None
    triton_version: str | None = None
    python_version: str | None = None
    solkit_version: str | None = None
    platform: str | None = None
    path: str | None = None
    problem_path: str | None = None
    problem_format: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    hard_evidence: str | None = None
    timed_inputs: str | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The values of `CONFIGURATION`: equal for repeats, and only for them."""
        return self.kernel_id, self.problem_id, canonical(self.params), self.device


def canonical(values: Any) -> str:
    """Return a mapping or list as canonical JSON text; infinity as ``"Infinity"`` etc."""
    try:
        return _ENCODER.encode(dict(values) if isinstance(values, Mapping) else values)
    except ValueError:  # rarely: a number that is not finite
        return _ENCODER.encode(finite(values))
