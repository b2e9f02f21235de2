"""The one way to `Facts`: launches are captured, compiled or lowered, and followed.

Served and stored facts both come from here, so they are the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from solkit.adapters.foreign_kernels import ForeignKernel
from solkit.adapters.helion_lines import source_lines
from solkit.adapters.launch_recording import CapturedLaunch
from solkit.adapters.triton_compiler import Compiled, Specialisation
from solkit.adapters.triton_ir import parse_module
from solkit.adapters.triton_targets import target_of
from solkit.analysis.interpreter.thread_groups import Grid
from solkit.analysis.triton.machine import estimated_mix
from solkit.analysis.triton.register_estimates import estimated_registers
from solkit.analysis.triton.requests import requests_of
from solkit.core import Depth, Device, Facts, Launch, Occupancy, Requests
from solkit.errors import UnsupportedError
from solkit.roofline.kernel.evaluate import occupancy_of

if TYPE_CHECKING:
    from solkit.analysis import cuda

Compile = Callable[[Sequence[Specialisation]], Sequence[Compiled]]
"""Compiles kernels for a device."""

_TORCHS_HELPERS = re.compile(r"\b(triton_helpers\.py):\d+")
"""Helpers of ``torch/_inductor/runtime``: their functions are inlined in Inductor's kernels."""
_LINES = re.compile(r"[\w.-]+\.py:\d+")
_NO_LINES: Mapping[str, str] = MappingProxyType({})
_DIGITS = 9
_ESTIMATED = (
    *("registers", "spills", "accesses", "loop_requests", "l1_wavefronts", "l2_read_bytes"),
    *("l2_write_bytes", "shared", "barriers", "instructions", "reuse"),
)
"""Fields that lowered facts estimate: registers, widths of accesses, all that rests on these."""
_ESTIMATED_LAYOUTS = ("shared", "barriers", "instructions")
"""Those of a kernel whose compiler does not say which thread holds what."""
_SUMS = (
    "steps",
    "imbalance",
    "unevenness",
    "iterations",
    "chain_cycles",
    "barriers",
    "instructions",
)


def launch_facts(
    launches: Sequence[CapturedLaunch],
    compile_all: Compile,
    device: Device,
    depth: Depth = Depth.COMPILED,
) -> list[tuple[Facts, float]]:
    """Return the facts of Triton launches, each with the seconds that compiling took.

    Args:
        launches: as captured; those that share a specialisation share a compile.
        compile_all: compiles for the device and reads the machine code; or only lowers.
        device: a target. Facts depend only on its compute capability and SM count.
        depth: what `compile_all` does.
    """
    kernels = list({id(launch.kernel): launch.kernel for launch in launches}.values())
    compiled = dict(zip(map(id, kernels), compile_all(kernels), strict=True))
    pairs = [(launch, compiled[id(launch.kernel)]) for launch in launches]
    return [(facts_of(launch, binary, device, depth), binary.seconds) for launch, binary in pairs]


def facts_of(
    captured: CapturedLaunch, compiled: Compiled, device: Device, depth: Depth = Depth.COMPILED
) -> Facts:
    """Return the facts of one Triton launch as compiled or lowered.

    Raises:
        TimeoutError: a limit that the caller set passed meanwhile.
    """
    facts = _compiled_facts(captured.launch, compiled)
    target = target_of(device)
    read = target.read_code
    if read is not None and facts.registers is not None:
        facts = replace(facts, estimated=("shared", "barriers"))
    is_foreign = isinstance(captured.kernel.function, ForeignKernel)
    if is_foreign and compiled.ptx and not compiled.ttgir:
        follow_ptx = partial(_ptx_requests, captured, compiled, device)
        return portable(_with_requests(facts, follow_ptx, device))
    if is_foreign and facts.registers is not None:
        if not compiled.ttgir:
            return _of_machine_code(facts)
        facts = replace(facts, estimated=_ESTIMATED_LAYOUTS)
    elif depth is Depth.LOWERED and target.allocate is not None:
        facts = _with_estimates(facts, compiled, captured.kernel.options.get("maxnreg"))

    def follow(resident: Occupancy) -> Requests:
        grid = facts.launch.grid
        shared_bytes = facts.shared_bytes or 0
        ptx, widths = compiled.ptx, compiled.widths
        if read is not None:  # no PTX: shared memory is estimated from the layouts
            ptx, widths = "", target.widths(compiled.ptx)
        code = compiled.ttgir, ptx
        return requests_of(*code, captured.passed, grid, device, resident, shared_bytes, widths)

    lines = source_lines(captured.kernel.function)
    return portable(_with_requests(facts, follow, device), lines)


def _ptx_requests(
    captured: CapturedLaunch, compiled: Compiled, device: Device, resident: Occupancy
) -> Requests:
    """Follow a launch of PTX, whose arguments are known by their place."""
    from solkit.analysis import cuda  # Triton's kernels need none of it

    how = captured.kernel.options["launch"]
    names, arguments = list(captured.arguments), list(captured.arguments.values())
    grid = Grid(how.grid, how.block, how.cluster)
    return cuda.cuda_requests(compiled, arguments, names, grid, device, resident)


def _of_machine_code(facts: Facts) -> Facts:
    """Return facts of a launch of which only the machine code is known."""
    missing = "trips of loops, bytes and operations are not, so its time is not modelled"
    note = f"Only the machine code of {facts.launch.name} is known: {missing}."
    return replace(facts, depth=Depth.MACHINE, notes=(*facts.notes, note))


def portable(facts: Facts, lines_of_source: Mapping[str, str] = _NO_LINES) -> Facts:
    """Return the same facts on every machine.

    The last bits of sums vary with numpy's version, and lines of torch's helpers with torch's.

    Args:
        facts: of a launch.
        lines_of_source: what lines of generated code were generated from.
    """
    requests, mix = facts.requests, facts.instructions
    renamed = partial(_renamed_lines, lines_of_source)
    if requests is not None:
        accesses = tuple(replace(a, line=renamed(a.line)) for a in requests.accesses)
        shared = tuple(replace(a, line=renamed(a.line)) for a in requests.shared)
        guesses = tuple(renamed(guess) for guess in requests.guesses)
        sums: dict[str, Any] = {name: _rounded(getattr(requests, name)) for name in _SUMS}
        sums["iterations_by_depth"] = tuple(map(_rounded, requests.iterations_by_depth))
        requests = replace(requests, accesses=accesses, shared=shared, guesses=guesses, **sums)
    if mix is not None:
        lines: Counter[str] = Counter()
        for line, count in mix.lines.items():
            lines[renamed(line)] += count
        mix = replace(mix, lines=dict(lines))
    return replace(facts, requests=requests, instructions=mix)


def _rounded(amount: float) -> float:
    return float(f"{amount:.{_DIGITS}g}")


def _renamed_lines(lines_of_source: Mapping[str, str], text: str) -> str:
    text = _TORCHS_HELPERS.sub(r"\1", text)
    if not lines_of_source:
        return text
    return _LINES.sub(lambda place: lines_of_source.get(place[0], place[0]), text)


def extension_facts(
    launches: Sequence[cuda.CudaLaunch], device: Device
) -> tuple[list[tuple[Facts, float]], tuple[str, ...], Sequence[Compiled]]:
    """Return the facts of launches of CUDA C++, with seconds as above.

    Returns:
        The facts, only captured ones without NVRTC; why others are unknown, each a sentence; and
        what the launches compile to.
    """
    from solkit.analysis import cuda

    try:
        compiled = cuda.compile_launches(launches, device)
    except UnsupportedError as error:
        visible = (launch.launch for launch in launches if launch.launch is not None)
        alone = [(Facts(launch, Depth.CAPTURED), 0.0) for launch in visible]
        return alone, (f"CUDA C++ was not compiled: {error}",), ()
    followed: list[tuple[Facts, float]] = []
    unknown: dict[str, None] = {}
    for captured, binary in zip(launches, compiled):
        if captured.launch is not None:
            facts = _extension_facts(captured, binary, device)
            followed.append((facts, binary.seconds))
            if binary.error is None and binary.registers is None:  # e.g. a missing header
                unknown |= dict.fromkeys(facts.notes)
            continue
        size = binary.error or f"{binary.registers} registers, {binary.spills} words spilled"
        where, kernel = captured.host.line, captured.host.kernel
        name = kernel if len(kernel) < 80 else f"{kernel.partition('<')[0]}<…>"
        unknown[f"{where}: grid or block of {name} could not be evaluated ({size})."] = None
    return _merged_equal_facts(followed), tuple(unknown), compiled


def _extension_facts(captured: cuda.CudaLaunch, compiled: Compiled, device: Device) -> Facts:
    assert captured.launch is not None
    from solkit.analysis import cuda

    assert captured.host.block is not None
    launch = replace(captured.launch, num_stages=cuda.stages_of(compiled.ptx, compiled.entry))
    facts = _compiled_facts(launch, compiled)
    grid = Grid(captured.launch.grid, captured.host.block, captured.cluster)

    def follow(resident: Occupancy) -> Requests:
        arguments, names = captured.host.arguments, captured.parameters
        return cuda.cuda_requests(compiled, arguments, names, grid, device, resident)

    return portable(_with_requests(facts, follow, device))


def _why_unread(launch: Launch, compiled: Compiled) -> str:
    """Say why nothing is known of the machine code; empty where it is known."""
    if not compiled.unread:
        return ""
    if compiled.is_unfinished:
        return f"{launch.name} is not analysed: {compiled.unread}"
    return f"Machine code could not be read: {compiled.unread}"


def _compiled_facts(launch: Launch, compiled: Compiled) -> Facts:
    unread = _why_unread(launch, compiled)
    usage = compiled.usage
    warps, stages = compiled.num_warps or launch.num_warps, compiled.num_stages
    return Facts(
        replace(launch, num_warps=warps, num_stages=stages or launch.num_stages),
        registers=compiled.registers,
        spills=compiled.spills,
        shared_bytes=compiled.shared_bytes,
        tensor_cores=compiled.tensor_cores,
        instructions=compiled.instructions,
        error=compiled.error,
        notes=(unread,) if unread else (),
        scalar_registers=usage.scalar_registers if usage else None,
        accumulation_registers=usage.accumulation_registers if usage else None,
        scratch_bytes=usage.scratch_bytes if usage else None,
    )


def _with_estimates(facts: Facts, lowered: Compiled, limit: int | None) -> Facts:
    facts = replace(facts, depth=Depth.LOWERED)
    if not lowered.ttgir:
        return facts
    try:
        function = parse_module(lowered.ttgir)
        registers, spills = estimated_registers(function, limit)
        mix = estimated_mix(function, spills)
    except TimeoutError:
        raise
    except Exception as error:  # a newer Triton's IR may hold anything; the rest stays known
        reason = f"{type(error).__name__}: {error}"
        return replace(facts, notes=(*facts.notes, f"Registers are unknown: {reason}"))
    estimated = replace(facts, registers=registers, spills=spills, instructions=mix)
    return replace(estimated, estimated=_ESTIMATED)


def _with_requests(facts: Facts, follow: Callable[[Occupancy], Requests], device: Device) -> Facts:
    """Add what the code requests, if it can run; or a note if that cannot be read."""
    try:
        resident = occupancy_of(facts, device)
    except ValueError:  # no block fits: `described` says so
        return facts
    if resident is None:
        return facts
    try:
        return replace(facts, requests=follow(resident))
    except TimeoutError:
        raise
    except Exception as error:  # a newer Triton's IR may hold anything; the rest stays known
        reason = f"{type(error).__name__}: {error}"
        note = f"What {facts.launch.name} asks for could not be read: {reason}"
        return replace(facts, notes=(*facts.notes, note))


def _merged_equal_facts(followed: Iterable[tuple[Facts, float]]) -> list[tuple[Facts, float]]:
    """Merge launches with equal facts, although their arguments differ."""
    once: list[tuple[Facts, float]] = []
    merged: list[Launch] = []
    for facts, seconds in followed:
        alone = replace(facts, launch=replace(facts.launch, count=1))
        distinct = [facts for facts, _ in once]
        if alone in distinct:
            place = distinct.index(alone)
            count = merged[place].count + facts.launch.count
            storages = _both_storages(merged[place], facts.launch)
            merged[place] = replace(merged[place], count=count, storages=storages)
        else:
            once.append((alone, seconds))
            merged.append(facts.launch)
    return [
        (replace(facts, launch=launch), seconds)
        for (facts, seconds), launch in zip(once, merged, strict=True)
    ]


def _both_storages(one: Launch, other: Launch) -> dict[str, tuple[int, ...]]:
    """Return what each parameter gets in two launches; empty if it is not known of both."""
    if one.storages.keys() != other.storages.keys():
        return {}
    return {
        name: (*numbers, *sorted({*other.storages[name]} - {*numbers}))
        for name, numbers in one.storages.items()
    }
