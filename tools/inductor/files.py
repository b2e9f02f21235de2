"""Kernel files out of Inductor.

Each graph of `tools.inductor.graphs` is compiled for an H100 that need not be there; each
kernel that comes of it becomes a file of SolKit's own form in ``FOLDER/<template>/``, whose
reference is that part of the graph, in aten calls, which the kernel computes. A kernel is left out,
and counted, where that part cannot be had or it cannot be launched by itself.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from solkit.adapters import inductor
from solkit.adapters.inductor import Buffer, CaughtKernel
from solkit.adapters.inductor_space import inductor_space
from solkit.roofline.devices import find
from tools.inductor import splits, templates  # noqa: F401 - they add graphs
from tools.inductor.graphs import GRAPHS, Argument, Given, Graph, Index, Mask
from tools.inductor.lowering import Lowered, lower_function, sampled_values, valid_text
from tools.inductor.reference import LeftOut, Reference
from tools.inductor.tolerance import check_text, permitted

__all__ = ["LeftOut", "kernel_files", "kernel_text", "write_kernel_files"]

_LOG = logging.getLogger(__name__)
_MOST_LISTED = 512
_ALLOCATES = (
    "    triton.set_allocator(lambda size, _alignment, _stream: "
    'torch.empty(size, dtype=torch.int8, device="cuda"))'
)
"""Descriptors that are made on the GPU are kept in memory that a program has to provide."""


@dataclass(frozen=True)
class _KernelFile:
    template: str
    name: str
    text: str


def write_kernel_files(folder: Path, names: Sequence[str] = ()) -> Counter[str]:
    """Write the kernels of all graphs, each distinct one once.

    Args:
        folder: where to; templates are folders within.
        names: of graphs; all where it is empty.

    Returns:
        How many files by template, and how many kernels were left out by reason.
    """
    inductor.install(find("h100"))
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    for name in names or GRAPHS:
        for file in kernel_files(name, GRAPHS[name]):
            if isinstance(file, LeftOut):
                counts[f"left out: {file}"] += 1
                continue
            body = re.sub(r"\d+", "0", file.text.split("@triton.jit", 1)[1])
            digest = hashlib.sha256(body.encode()).hexdigest()
            function = body.split("\ndef valid", 1)[0]
            if function in seen:  # alike but for numbers
                counts["repeated"] += 1
                continue
            seen.add(function)
            counts[file.template] += 1
            path = folder / file.template / f"{file.name}_{digest[:6]}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text, encoding="utf-8")
        _LOG.info("%s: %s", name, dict(counts))
    return counts


def kernel_files(name: str, graph: Graph) -> Iterator[_KernelFile | LeftOut]:
    """The kernels of a graph in a few dtypes and settings; `inductor.install` comes before."""
    for variant in graph.variants:
        torch.manual_seed(0)
        shapes = graph.shapes[variant.shapes % len(graph.shapes)]
        args = [_argument(shape, variant.dtype) for shape in shapes]
        functions = [_with_gradient(graph.function)] if graph.gradient else []
        for function in (*functions, graph.function):
            yield from _files_of(name, function, args, variant.dtype, variant.settings)


def _files_of(
    name: str,
    function: Callable[..., Any],
    args: Sequence[torch.Tensor],
    dtype: torch.dtype,
    settings: Mapping[str, Any],
) -> Iterator[_KernelFile | LeftOut]:
    try:
        lowered = lower_function(function, args, settings)
    except Exception as error:  # whatever Inductor raises where it cannot lower without a GPU
        yield LeftOut(f"Inductor raises {type(error).__name__}")
        return
    buffers = (b for kernel in lowered.kernels for b in (*kernel.inputs, *kernel.outputs))
    names = {buffer.node.name for buffer in buffers if buffer.node}
    samples = sampled_values(lowered.graph, args, frozenset(names))
    about = f"{name}, {str(dtype).removeprefix('torch.')}"
    for kernel in lowered.kernels:
        try:
            text = kernel_text(about, lowered, kernel, samples)
        except LeftOut as why:
            yield why
        else:
            yield _KernelFile(kernel.template, name, text)


def _argument(shape: Argument, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(shape, Index):
        return torch.randint(0, shape.high, shape.shape)
    if isinstance(shape, Mask):
        return torch.rand(shape.shape) < 0.9
    if isinstance(shape, Given):
        return shape.make(dtype)
    return torch.randn(shape).to(dtype)


def _with_gradient(function: Callable[..., Any]) -> Callable[..., list[torch.Tensor]]:
    """The function's outputs and the gradients of the sum of their squares."""

    def both(*args: torch.Tensor) -> list[torch.Tensor]:
        with torch.enable_grad():
            leaves = [a.detach().requires_grad_(a.is_floating_point()) for a in args]
            out = function(*leaves)
            outputs = out if isinstance(out, tuple) else (out,)
            trainable = [leaf for leaf in leaves if leaf.requires_grad]
            gradients = torch.autograd.grad(outputs, trainable, outputs)
        return [*(o.detach() for o in outputs), *gradients]

    return both


# ---------------------------------------------------------------------------------- the text


def kernel_text(
    about: str, lowered: Lowered, kernel: CaughtKernel, samples: Mapping[str, torch.Tensor]
) -> str:
    """A kernel as a kernel file.

    Args:
        about: what the first line says of where it is from.
        lowered: what it is of.
        kernel: the kernel.
        samples: by node, a value of what the kernel reads and writes: `inputs` is to resemble it.

    Raises:
        LeftOut: it cannot be launched by itself, or what it computes cannot be told.
    """
    if kernel.obstacle:
        raise LeftOut(kernel.obstacle)
    if not kernel.grid:
        raise LeftOut("its grid is not known")
    inputs, outputs = _distinct(kernel.inputs), kernel.outputs
    if not inputs:
        raise LeftOut("reads nothing")
    reference = Reference(lowered, list(map(_node, inputs)), list(map(_node, outputs)))
    problem = f"{_inputs_text(inputs, samples)}\n\n\n{reference.text()}"
    results = [samples[_node(buffer).name] for buffer in outputs]
    passes = permitted(kernel, reference, results, problem)
    parts = (
        f"{_head(about, kernel)}TOLERANCE = {passes.text()}",
        kernel.source,
        valid_text(kernel),
        problem,
        check_text(reference.codes(), passes, len(outputs)),
        _launcher_text(kernel, inputs),
    )
    return "\n\n".join(part.rstrip() + "\n" for part in parts if part)


def _distinct(buffers: Sequence[Buffer]) -> list[Buffer]:
    """One for each node: a tensor may be given twice."""
    return list({_node(buffer): buffer for buffer in buffers}.values())


def _node(buffer: Buffer) -> torch.fx.Node:
    if buffer.node is None:
        kind = "output" if buffer.is_output else "input"
        raise LeftOut(f"an {kind} is no value of the graph")
    return buffer.node


def _head(about: str, kernel: CaughtKernel) -> str:
    rows = "".join(f"    {json.dumps(k)}: {list(v)},\n" for k, v in inductor_space(kernel).items())
    helpers = "".join(
        f"from {module} import {names}\n"
        for module, names in (
            ("torch._inductor.runtime", "triton_helpers"),
            ("torch._inductor.runtime.triton_helpers", "libdevice"),
            ("torch._inductor.runtime.triton_helpers", "math as tl_math"),
        )
        if re.search(rf"\b{names.split()[-1]}\.", kernel.source)
    )
    return (
        f'"""{kernel.template.replace("_", " ").capitalize()} by Inductor: of {about}."""\n\n'
        f"import torch\nimport triton\nimport triton.language as tl\n{helpers}\n"
        "aten = torch.ops.aten\n\n"
        f'KIND = "inductor"\nSPACE = {{\n{rows}}}\n'
    )


def _inputs_text(inputs: Sequence[Buffer], samples: Mapping[str, torch.Tensor]) -> str:
    lines = ['def inputs(device="cuda"):']
    for buffer in inputs:
        name = _node(buffer).name
        lines.append(f"    {name} = {_like(buffer, samples[name])}")
    return "\n".join([*lines, f"    return ({', '.join(_node(b).name for b in inputs)},)"])


def _like(buffer: Buffer, sample: torch.Tensor) -> str:
    """An expression for a tensor of the buffer's layout and of about the sample's distribution."""
    contiguous = buffer.stride == torch.empty(buffer.size, device="meta").stride()
    elements = 1 + sum((n - 1) * s for n, s in zip(buffer.size, buffer.stride))
    size = buffer.size if contiguous else (elements,)
    view = "" if contiguous else f".as_strided({buffer.size}, {buffer.stride})"
    where = f"{size}, dtype={buffer.dtype}, device=device"
    return f"{_values(sample, buffer.dtype, size, where)}{view}"


def _values(sample: torch.Tensor, dtype: torch.dtype, size: tuple[int, ...], where: str) -> str:
    if dtype == torch.bool:
        return f"torch.rand({size}, device=device) < {float(sample.double().mean()):.3g}"
    if dtype == torch.int32 and sample.numel() <= _MOST_LISTED:  # offsets, say: no random numbers
        return f"torch.tensor({sample.tolist()}, dtype={dtype}, device=device)"
    if not dtype.is_floating_point:
        return f"torch.randint({int(sample.min())}, {int(sample.max()) + 1}, {where})"
    values = sample.double()
    if not bool(values.isfinite().all()):
        raise LeftOut("an input is infinite")
    low, high = float(values.min()), float(values.max())
    mean, std = float(values.mean()), float(values.std()) if values.numel() > 1 else 0.0
    if low == high:
        return f"torch.full({size}, {low:.4g}, dtype={dtype}, device=device)"
    if low >= 0 or high <= 0:  # a variance, a probability: of one sign
        return f"torch.empty({where}).uniform_({low:.4g}, {high:.4g})"
    if abs(mean) < 0.02 and abs(std - 1) < 0.02:
        return f"torch.randn({where})"
    return f"torch.empty({where}).normal_({mean:.3g}, {std:.3g})"


# ------------------------------------------------------------------------------ the launcher


def _launcher_text(kernel: CaughtKernel, inputs: Sequence[Buffer]) -> str:
    names = [_node(buffer).name for buffer in inputs]
    tuned = [*kernel.blocks, "num_warps", "num_stages"]
    chosen = ", ".join(f"{name}={kernel.configs[0][name]}" for name in tuned)
    lines = [f"def kernel({', '.join(names)}, *, {chosen}):"]
    lines += [
        f"    {b.name} = torch.empty_strided("
        f"{b.size}, {b.stride}, dtype={b.dtype}, device={names[0]}.device)"
        for b in kernel.buffers
        if b.is_output
    ]
    lines += [
        f"    {w.name} = torch.{'zeros' if w.zeroed else 'empty'}"
        f"({w.elements}, dtype={w.dtype}, device={names[0]}.device)"
        for w in kernel.workspaces
    ]
    arguments = [b.name if b.is_output else _node(b).name for b in kernel.buffers]
    arguments += [workspace.name for workspace in kernel.workspaces]
    arguments += [str(size) for size in kernel.numels.values()]
    arguments += [f"{name}={name}" for name in tuned]
    arguments += ["launch_cooperative_grid=True"] if kernel.cooperative else []
    if "make_tensor_descriptor" in kernel.source:
        lines.append(_ALLOCATES)
    lines += [
        f"    grid = ({', '.join(kernel.grid)},)",
        f"    fused_kernel[grid]({', '.join(arguments)})",
        *_partial_lines(kernel),
        f"    return {', '.join(b.name for b in kernel.outputs)}",
    ]
    return "\n".join(lines)


def _partial_lines(kernel: CaughtKernel) -> list[str]:
    """Puts the programs' parts together, as the code around Inductor's kernel does."""
    if not kernel.partials:
        return []
    shape = f"({len(kernel.partials)}, grid[0], {kernel.numels['r0_numel']})"
    lines = [
        f"    parts = {kernel.workspaces[-1].name}[:{' * '.join(shape[1:-1].split(', '))}]",
        f"    parts = parts.view{shape}",
    ]
    for place, partial in enumerate(kernel.partials):
        reduction = {"min": "amin", "max": "amax"}.get(partial.reduction, partial.reduction)
        expression = f"parts[{place}].{reduction}(0).view({partial.buffer.size})"
        lines.append(f"    {partial.buffer.name} = {expression}.to({partial.buffer.dtype})")
    return lines
