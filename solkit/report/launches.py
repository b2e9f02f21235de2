"""The launches of a shape on the terminal, heaviest first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.text import Text

from solkit.core import Device, Facts, KernelAnalysis, Occupancy
from solkit.report import units
from solkit.report.advice import out_of_resources

_ERROR_LINES = 12


def heaviest_first(kernels: Sequence[KernelAnalysis]) -> list[KernelAnalysis]:
    """Sort launches by falling modelled time of all their calls; first those that fail."""
    return sorted(kernels, key=lambda kernel: (kernel.error is None, -_modelled_call_ms(kernel)))


def _modelled_call_ms(kernel: KernelAnalysis) -> float:
    return kernel.model.time_ms * kernel.launch.count if kernel.model else 0.0


def shown_words(shown: Sequence[KernelAnalysis], kernels: Sequence[KernelAnalysis]) -> str:
    """Return how many launches are shown, and what share of the modelled time they are."""
    calls, every = (sum(kernel.launch.count for kernel in part) for part in (shown, kernels))
    which = f"all {every}" if calls == every else f"{calls} of {every}"
    whole_ms = sum(map(_modelled_call_ms, kernels))
    if not whole_ms:
        return f"{which} shown"
    share = 100 * sum(map(_modelled_call_ms, shown)) / whole_ms
    return f"{which} shown, heaviest first: {share:.3g} % of the modelled time"


def launch_in_brief(kernel: KernelAnalysis, device: Device) -> Text:
    """Return a launch in one line."""
    launch = kernel.launch
    times = f" ({launch.count} times)" if launch.count > 1 else ""
    text = Text.assemble((launch.name, "bold"), times, no_wrap=True, overflow="ellipsis")
    if kernel.error:
        why = error_text(kernel.error, "").plain.partition("\n")[0]
        return text.append(f"  {_why_broken(kernel)}: {why}", style="red")
    facts = []
    if kernel.model:
        limiter = kernel.model.limiter
        facts.append(f"{units.duration(_modelled_call_ms(kernel))}, mostly {limiter}")
    facts += _moved_bytes_words(kernel, brief=True)
    if launch.library:
        facts.append("PyTorch's")
    elif kernel.occupancy:
        facts.append(filled_occupancy(kernel, kernel.occupancy, device).partition(" (")[0])
    if kernel.facts.spills:
        facts.append(f"{kernel.facts.spills} spills")
    return text.append("  " + " · ".join(facts or [f"grid {units.format_grid(launch.grid)}"]))


def launch_in_full(kernel: KernelAnalysis, device: Device) -> Text:
    """Return a launch with all that is known of it in words."""
    launch, compiled = kernel.launch, compiled_words(kernel)
    if launch.library:
        return _operator_line(kernel)
    facts = [
        f"grid {units.format_grid(launch.grid)}",
        f"{launch.num_warps} warp{'s' * (launch.num_warps != 1)}",
        f"{launch.num_stages} stage{'s' * (launch.num_stages != 1)}",
    ]
    if launch.num_ctas > 1:
        facts.append(f"clusters of {launch.num_ctas}")
    if launch.count > 1:
        facts.append(f"{launch.count} times")
    text = Text.assemble((launch.name, "bold"), f"  {' · '.join(facts)}")
    if kernel.occupancy:
        compiled += [
            filled_occupancy(kernel, kernel.occupancy, device),
            *_waves_in_words(kernel, kernel.occupancy),
        ]
    if compiled:
        text.append("\n" + " · ".join([*compiled, *_moved_bytes_words(kernel)]))
    if kernel.error:
        text.append(f"\n{_why_broken(kernel)}: ", style="bold red")
        text.append_text(error_text(kernel.error, "red"))
    return text


def filled_occupancy(kernel: KernelAnalysis, occupancy: Occupancy, device: Device) -> str:
    """Return the share of an SM's warps that the grid can really fill, and what limits it."""
    blocks, fit = math.prod(kernel.launch.grid), occupancy.blocks_per_sm
    resident = min(fit, math.ceil(blocks / device.sm_count))
    if resident >= fit:
        return f"occupancy {100 * occupancy.fraction:.0f} % (limit: {occupancy.limiter})"
    achieved = f"occupancy {100 * occupancy.fraction * resident / fit:.0f} %"
    if blocks < device.sm_count:
        noun = "block" if blocks == 1 else "blocks"
        return f"{achieved} ({blocks} {noun} for {device.sm_count} SMs)"
    noun = "block" if resident == 1 else "blocks"
    return f"{achieved} (limit: the grid, {resident} {noun} an SM of {fit} that fit)"


def _waves_in_words(kernel: KernelAnalysis, occupancy: Occupancy) -> Iterator[str]:
    """Yield how often the grid fills the GPU; nothing if it does not."""
    if occupancy.waves >= 1:
        yield f"{occupancy.waves:.3g} waves" if occupancy.waves != 1 else "1 wave"
    elif math.prod(kernel.launch.grid) > 1:
        yield "less than one wave"


def _why_broken(kernel: KernelAnalysis) -> str:
    return "needs more than the GPU has" if out_of_resources(kernel) else "does not compile"


def _operator_line(kernel: KernelAnalysis) -> Text:
    """Return a launch of one of PyTorch's operators."""
    launch = kernel.launch
    facts = ["PyTorch's operator", *([launch.line] if launch.line else [])]
    if launch.count > 1:
        facts.append(f"{launch.count} times")
    return Text.assemble(
        (launch.name, "bold"), f"  {' · '.join([*facts, *_moved_bytes_words(kernel)])}"
    )


def _moved_bytes_words(kernel: KernelAnalysis, brief: bool = False) -> list[str]:
    """Return what a launch moves from and to DRAM."""
    demand = kernel.demand
    if demand is None:
        return []
    read, written = demand.dram_read_bytes, demand.dram_write_bytes
    if brief:
        return [f"{units.amount(kernel.launch.count * (read + written), 'B')} at DRAM"]
    return [f"{units.amount(read, 'B')} read, {units.amount(written, 'B')} written"]


def compiled_words(kernel: KernelAnalysis) -> list[str]:
    """Return facts of the compiled kernel; empty if it did not compile."""
    facts, parts = kernel.facts, []
    if facts.registers is not None:
        parts += [f"{facts.registers} registers{_kinds_of_registers(facts)}"]
        parts += [f"{facts.spills or 'no'} spills"]
    if facts.scratch_bytes:
        parts.append(f"{units.binary_bytes(facts.scratch_bytes)} scratch per thread")
    if facts.shared_bytes is not None:
        parts.append(f"{units.binary_bytes(facts.shared_bytes)} shared")
    if facts.tensor_cores is not None:
        parts.append("tensor cores" if facts.tensor_cores else "no tensor cores")
    return parts


def _kinds_of_registers(facts: Facts) -> str:
    """Return how many are accumulation registers, and the scalar ones, in brackets."""
    kinds = [
        f"{facts.accumulation_registers} for accumulation" if facts.accumulation_registers else "",
        f"{facts.scalar_registers} scalar besides" if facts.scalar_registers else "",
    ]
    words = ", ".join(filter(None, kinds))
    return f" ({words})" if words else ""


def error_text(error: str, style: str) -> Text:
    """Return an error, cut after some lines."""
    lines = Text.from_ansi(error.strip()).plain.splitlines()
    more = [f"… and {len(lines) - _ERROR_LINES} more lines"] if len(lines) > _ERROR_LINES else []
    return Text("\n".join([*lines[:_ERROR_LINES], *more]), style=style)
