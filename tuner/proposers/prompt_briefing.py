"""The messages that a brief makes: facts, in sections of Markdown.

Prompts are files, ``system.md`` and ``user.md``; see `solkit.llm.prompts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from solkit.core import Bound, Brief, Device, Gap, GapFactor, KernelAnalysis, Result, Tried, Value
from solkit.core.quantities import amount, binary_bytes, duration, significant
from solkit.llm.client import Message
from solkit.llm.prompts import fence_python, load_prompt
from solkit.tuner.proposers.safety import ALLOWED_IMPORTS

PROMPT_VERSION = "v1"
_UNKNOWN = "Not known."
_MOST_LAUNCHES = 8
_MOST_ACCESSES = 8  # of a launch
_MOST_TRIED = 20
_TELLING = 0.005  # a factor closer to 1 is no cost
_MOST_SENTENCE = 300
_MOST_SOURCE = 100  # of a ceiling: a name, and its place in a document is left out


def messages_for(brief: Brief, entry: str, version: str = PROMPT_VERSION) -> tuple[Message, ...]:
    """Return the conversation that asks for a variant.

    Args:
        brief: the facts.
        entry: what the file must define to be run, e.g. ``"def kernel"``.
        version: of the prompts.

    Raises:
        InputError: there is no such version.
    """
    rules = load_prompt(__package__, version, "system.md").substitute(
        entry=f"`{entry}`" if entry else "as in the file.", imports=", ".join(ALLOWED_IMPORTS)
    )
    text = load_prompt(__package__, version, "user.md").substitute(_brief_sections(brief))
    return Message("system", _encodable_text(rules)), Message("user", _encodable_text(text))


def _brief_sections(brief: Brief) -> dict[str, str]:
    result = brief.result
    return {
        "name": brief.name,
        "source": fence_python(brief.source.rstrip()),
        "reference": _reference(brief.reference),
        "device": "\n".join(_describe_device(brief.device)),
        "measured": "\n".join(_describe_measured(brief)),
        "bound": "\n".join(_describe_bound(result.bound)) if result else _UNKNOWN,
        "gap": "\n".join(_describe_gap(result.gap)) if result and result.gap else _UNKNOWN,
        "launches": "\n".join(_describe_launches(result)) if result else _UNKNOWN,
        "advice": _list_sentences(brief.advice) or "None.",
        "tried": _list_sentences(map(_describe_attempts, brief.tried[-_MOST_TRIED:]))
        or "Nothing yet.",
    }


def _reference(source: str | None) -> str:
    if source is None:
        return ""
    return f"# The file with the problem\n\n{fence_python(source.rstrip())}\n\n"


def _describe_device(device: Device) -> Iterable[str]:
    major, minor = device.compute_capability
    yield f"{device.name}, compute capability {major}.{minor}, {device.sm_count} SMs, L2 of " + (
        f"{binary_bytes(device.l2_bytes)}."
    )
    limits = device.limits
    yield (
        f"An SM holds {limits.threads} threads, {limits.blocks} blocks, {limits.registers} "
        f"registers and {binary_bytes(limits.shared_bytes)} of shared memory, of which one block "
        f"may have {binary_bytes(limits.shared_per_block_bytes)}."
    )
    yield "Ceilings:"
    for name, ceiling in device.ceilings.items():
        clock = f" at {ceiling.clock_mhz:g} MHz" if ceiling.clock_mhz else ""
        source = ceiling.source[:_MOST_SOURCE]
        yield f"- {name}: {amount(ceiling.value, ceiling.unit)}{clock} ({source})"
    for name, ceiling in device.calibrated.items():
        yield f"- {name}, measured on this GPU: {amount(ceiling.value, ceiling.unit)}"


def _describe_measured(brief: Brief) -> Iterable[str]:
    yield f"Shape: {_list_settings(brief.shape)}."
    yield f"Parameters of the kernel: {_list_settings(brief.params)}."
    result = brief.result
    if result is None:
        return
    if result.tolerance is not None:
        yield f"Tolerance: rtol {result.tolerance.rtol:g}, atol {result.tolerance.atol:g}."
    yield f"Verdict: {result.verdict.value}."
    if result.measurement is not None:
        seen = result.measurement
        yield f"Measured: {duration(seen.median_ms)} ({seen.method})."
    yield from (f"Error: {_one_line(error)}" for error in result.errors)


def _describe_bound(bound: Bound) -> Iterable[str]:
    yield f"{duration(bound.time_ms)}, limited by {bound.limiter}, inputs {bound.protocol}."
    for resource in bound.resources:
        yield (
            f"- {resource.name}: {amount(resource.amount, resource.unit)} at "
            f"{amount(resource.ceiling, f'{resource.unit}/s')}: {duration(resource.time_ms)}"
        )
    yield from (f"- Assumed: {_one_line(assumption)}" for assumption in bound.assumptions)


def _describe_gap(gap: Gap) -> Iterable[str]:
    kind = "measured" if gap.measured else "modelled"
    times = f"{gap.time_ms / gap.sol_ms:.2f} times" if gap.sol_ms else "more than"
    yield f"The {kind} time, {duration(gap.time_ms)}, is {times} the least time. Its factors:"
    free = [factor.name for factor in gap.factors if abs(factor.factor - 1) < _TELLING]
    for factor in gap.factors:
        if factor.name not in free:
            why = f"{_one_line(factor.evidence)}{_describe_cause(factor)}"
            yield f"- {factor.name}: {factor.factor:.3f}. {why}"
    if free:
        yield f"- Without cost: {', '.join(free)}."


def _describe_cause(factor: GapFactor) -> str:
    cause = factor.cause
    return f" Cause: {cause.name} ({_list_settings(cause.figures)})." if cause else ""


def _describe_launches(result: Result) -> Iterable[str]:
    kernels = result.analysis.kernels
    yield f"Distinct launches in one call: {len(kernels)}."
    for kernel in kernels[:_MOST_LAUNCHES]:
        yield from _describe_launch(kernel)
    for output in result.analysis.written:
        yield f"Output: {output.bytes} B, of which {output.written_bytes} B are written."
    yield from (f"Note: {_one_line(note)}" for note in result.analysis.notes)


def _describe_launch(kernel: KernelAnalysis) -> Iterable[str]:
    launch, facts = kernel.launch, kernel.facts
    if launch.library:
        yield f"- {launch.name}: an operator of PyTorch's, {launch.count} a call ({launch.line})"
        return
    yield (
        f"- {launch.name}: {launch.count} a call, grid {launch.grid}, {launch.num_warps} warps, "
        f"{launch.num_stages} stages, constants {_list_settings(launch.constants)}"
    )
    yield (
        f"  registers {_or_unknown(facts.registers)} a thread, spilled words "
        f"{_or_unknown(facts.spills)}, shared memory {_or_unknown(facts.shared_bytes)} B a block"
    )
    if kernel.error or facts.error:
        yield f"  cannot run: {_one_line(kernel.error or facts.error or '')}"
    yield from (f"  {line}" for line in _launch_figures(kernel))


def _launch_figures(kernel: KernelAnalysis) -> Iterable[str]:
    if kernel.occupancy is not None:
        seen = kernel.occupancy
        yield (
            f"occupancy {seen.fraction:.0%} (limited by {seen.limiter}), {seen.blocks_per_sm} "
            f"blocks an SM, {seen.waves:.2f} waves, tail efficiency {seen.tail_efficiency:.2f}"
        )
    if kernel.model is not None:
        terms = ", ".join(f"{t.name} {duration(t.time_ms)}" for t in kernel.model.terms[:4])
        yield f"modelled: {duration(kernel.model.time_ms)}; terms: {terms}"
    if kernel.demand is not None:
        yield from _memory_demand(kernel)


def _memory_demand(kernel: KernelAnalysis) -> Iterable[str]:
    demand = kernel.demand
    assert demand is not None
    yield (
        f"DRAM: reads {amount(demand.dram_read_bytes, 'B')}, writes "
        f"{amount(demand.dram_write_bytes, 'B')}; L2: reads {amount(demand.l2_read_bytes, 'B')}, "
        f"writes {amount(demand.l2_write_bytes, 'B')}"
    )
    largest = sorted(demand.accesses, key=lambda access: -access.sectors)[:_MOST_ACCESSES]
    for access in largest:
        yield (
            f"{access.kind} of {access.argument or 'unknown'} at {access.line or 'unknown'}: moves "
            f"{amount(access.sector_bytes, 'B')}, needs {amount(access.requested_bytes, 'B')}, "
            f"distinct {amount(access.unique_bytes, 'B')}, {access.vector_bytes} B an instruction"
        )


def _describe_attempts(tried: Tried) -> str:
    parts = [f"{tried.kind}: {_one_line(tried.intent)}"]
    if tried.verdict is not None:
        parts.append(f"verdict {tried.verdict.value}")
    if tried.gap is not None:
        parts.append(f"{tried.gap:.2f} times the least time")
    if tried.gain is not None:
        parts.append(f"{significant(tried.gain)} times as fast as its parent")
    return "; ".join([*parts, *filter(None, [_one_line(tried.why)])])


def _list_sentences(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {_one_line(sentence)}" for sentence in sentences)


def _one_line(text: str) -> str:
    """Return a text on one line, so that it cannot start a section of its own."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SENTENCE else f"{line[:_MOST_SENTENCE]}…"


def _list_settings(values: Mapping[str, Value]) -> str:
    return (
        _one_line(", ".join(f"{name}={_format_value(value)}" for name, value in values.items()))
        or "none"
    )


def _format_value(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _or_unknown(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _encodable_text(text: str) -> str:
    """Return text that UTF-8 can hold, so that its digest and its record exist."""
    return text.encode("utf-8", "replace").decode()
