"""What tests of `solkit.adapters.inductor_program` run in child processes."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from solkit.adapters import triton_interpreter
from solkit.kernelfiles import load
from solkit.kernelfiles.seeding import seed_everything
from solkit.roofline import devices


def written(paths: list[str], settings: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """For each reference its kernel file's text, or nothing and why there is none."""
    from solkit.analysis.compiled_reference import write_reference as one
    from solkit.errors import InputError

    results = []
    for path in paths:
        try:
            results.append((one(path, devices.find("h100-sxm"), None, settings)[0], ""))
        except InputError as error:
            results.append(("", str(error)))
    return results


def compared(pairs: list[tuple[str, str]], points: int, atol: float = 1e-5) -> list[str]:
    """For each reference and kernel file how they differ in the interpreter; empty if they agree.

    Each is run with its defaults and with `points` parameters drawn from its space.
    """
    torch.set_num_threads(1)
    triton_interpreter.install()
    return [_compared(reference, path, points, atol) for reference, path in pairs]


def _compared(reference: str, path: str, points: int, atol: float) -> str:
    loaded = load(path, reference)
    space = loaded.space({})
    drawn = islice(space.shuffled(0), points) if space.values else ()
    for params in ({}, *drawn):
        watch = triton_interpreter.watch_launches(60.0)
        want = _outputs(loaded, {}, "run_reference")
        got = _outputs(loaded, params, "run_kernel")
        if watch.skipped:
            return f"{watch.skipped} programs did not run"
        if why := _difference(want, got, atol):
            return f"with {params}: {why}"
    return ""


def _outputs(loaded: Any, params: Any, run: str) -> list[torch.Tensor]:
    """The outputs, then the arguments and buffers as they are after the call."""
    seed_everything(0)
    workload = loaded.workload({}, params, "cpu")
    outputs = list(getattr(workload, run)())
    function = workload.reference if run == "run_reference" else workload.kernel
    model = getattr(function, "model", None)
    kept = [] if model is None else [*model.buffers(), *model.parameters()]
    selected_args = [arg for arg in workload.args if isinstance(arg, torch.Tensor)]
    return [item.detach() for item in (*outputs, *selected_args, *kept)]


def _difference(want: list[torch.Tensor], got: list[torch.Tensor], atol: float = 1e-5) -> str:
    if len(want) != len(got):
        return f"{len(got)} outputs, not {len(want)}"
    for place, (right, mine) in enumerate(zip(want, got)):
        if (right.shape, right.dtype, right.stride()) != (mine.shape, mine.dtype, mine.stride()):
            return f"output {place} is {mine.shape} {mine.dtype} {mine.stride()}"
        if not torch.allclose(right.double(), mine.double(), rtol=1e-4, atol=atol, equal_nan=True):
            return f"output {place} is off by {float((right - mine).abs().max()):.3g}"
    return ""


def served(paths: list[str]) -> list[tuple[str, str]]:
    """Put references' programs behind entry points, or say why there is none, by kernel file."""
    from solkit.analysis.compiled_reference import write_program
    from solkit.errors import InputError
    from solkit.tuner.proposers.rewriter.entry_points import entry_point, with_program

    results = []
    for path in paths:
        source = Path(path).read_text()
        params = {"BLOCK": 4} if "BLOCK" in source else {}
        entry = entry_point(source, path, params)
        try:
            text, conditions, _ = write_program(path, devices.find("h100-sxm"), {}, entry)
            results.append((with_program(source, params, text, conditions), ""))
        except InputError as error:
            results.append(("", str(error)))
    return results


def called(cases: list[tuple[str, str, dict[str, Any]]]) -> list[tuple[str, str]]:
    """Compare joined files with their references, and at another shape with their originals."""
    torch.set_num_threads(1)
    triton_interpreter.install()
    return [
        (
            _difference_of_values((original, "run_reference"), joined, original, {}),
            _difference_of_values((original, "run_kernel"), joined, original, other),
        )
        for original, joined, other in cases
    ]


def runs_program(original: str, joined: str) -> dict[str, bool]:
    """By change of a call or of PyTorch's settings, whether the program runs: it gives no zeros."""
    torch.set_num_threads(1)
    triton_interpreter.install()
    kernel = load(joined, original).workload({}, {}, "cpu").kernel
    x = torch.rand(6, 40) + 1
    calls = {
        "same": (x, 2.0),
        "integer": (x, 2),
        "numpy": (x, np.float64(2.0)),
        "transposed": (x.t().contiguous().t(), 2.0),
        "sparse": (x.to_sparse(), 2.0),
        "negated": (torch._neg_view(x), 2.0),
        "gradient": (x.clone().requires_grad_(), 2.0),
        "list": (x.tolist(), 2.0),
    }
    settings = {
        "dtype": (torch.set_default_dtype, torch.float64, torch.float32),
        "autocast": (partial(torch.set_autocast_enabled, "cuda"), True, False),
        "deterministic": (torch.use_deterministic_algorithms, True, False),
    }
    outcomes = {name: _runs(kernel, *args) for name, args in calls.items()}
    for name, (choose, other, usual) in settings.items():
        choose(other)
        outcomes[name] = _runs(kernel, x, 2.0)
        choose(usual)
    return outcomes


def _runs(kernel: Any, *args: Any) -> bool:
    try:
        return bool(kernel(*args)[0].any())
    except AttributeError:  # the original's: a list has no shape
        return False


def sum_of_two(original: str, joined: str) -> float:
    """Largest error of a program for x + 2 y, made where both were one tensor."""
    torch.set_num_threads(1)
    triton_interpreter.install()
    x, y = torch.randn(6, 40), torch.randn(6, 40)
    kernel = load(joined, original).workload({}, {}, "cpu").kernel
    return float((kernel(x, y) - (x + 2 * y)).abs().max())


def returned_with_twice(original: str, joined: str) -> tuple[bool, bool]:
    """Tell if a kernel returns twice its first argument, and the second one itself."""
    torch.set_num_threads(1)
    triton_interpreter.install()
    x, y = torch.randn(6, 40), torch.randn(40)
    twice, same = load(joined, original).workload({}, {}, "cpu").kernel([x, y])
    return torch.equal(twice, 2 * x), same is y


def _difference_of_values(
    right: tuple[str, str], joined: str, original: str, shape: dict[str, Any]
) -> str:
    """Dtypes and strides are the original's in both, so they are not compared."""
    outputs = []
    for loaded, run in ((load(right[0]), right[1]), (load(joined, original), "run_kernel")):
        seed_everything(0)
        outputs.append(getattr(loaded.workload(shape, {}, "cpu"), run)())
    pairs = zip(*outputs, strict=True)
    return " ".join(
        f"output {place} differs"
        for place, (want, got) in enumerate(pairs)
        if not torch.allclose(want.double(), got.double(), rtol=1e-4, atol=1e-5)
    )


def attention(query, key, value):
    scores = query.float() @ key.float().transpose(-1, -2)
    return (scores - scores.amax(-1, keepdim=True)).exp() @ value.float()


def linear(x, weight, bias):

    return torch.addmm(bias, x.float(), weight.t().float(), beta=2.0, alpha=0.5)


def without_addend(x, weight, bias):
    return torch.addmm(bias, x.float(), weight.float(), beta=0)


def plain(x, weight):
    return x @ weight


def mixed(x, weight):
    return x.float() @ weight.float()


def _evaluated(graph: Any, *args: Any) -> Any:
    """Values of a graph: a CPU has no product of 16 bits with a result in fp32."""

    class Wide(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            if target is not torch.ops.aten.bmm.dtype:
                return super().call_function(target, args, kwargs)
            assert args[0].dtype == args[1].dtype != torch.float32
            return torch.bmm(args[0].float(), args[1].float())

    return Wide(graph).run(*args)[0]


def narrowed() -> dict[str, tuple[bool, list[str], float]]:
    """Return for each function: if it changed, operators of products, and the largest error."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from solkit.adapters.inductor_program._graph import Tensors, trace_function
    from solkit.adapters.inductor_program._narrow_products import narrow_products

    torch.manual_seed(0)
    half, wide, brain = torch.float16, torch.float32, torch.bfloat16
    cases = {
        attention: [(2, 3, 8, 16), (2, 3, 5, 16), (2, 3, 5, 4), half, half, half],
        linear: [(8, 16), (4, 16), (4,), brain, brain, wide],
        without_addend: [(8, 16), (16, 4), (4,), half, half, wide],
        plain: [(8, 16), (16, 4), wide, wide],
        mixed: [(8, 16), (16, 4), half, brain],
    }
    outcomes = {}
    for function, listed in cases.items():
        shapes, dtypes = listed[: len(listed) // 2], listed[len(listed) // 2 :]
        real = [torch.randn(s).to(d) for s, d in zip(shapes, dtypes, strict=True)]
        if function is without_addend:
            real[2].fill_(float("inf"))
        with FakeTensorMode() as mode:
            fakes = tuple(mode.from_tensor(tensor) for tensor in real)
            graph = trace_function(
                lambda _, *args, f=function: f(*args), Tensors(fakes, {}, {})
            ).graph
            changed = narrow_products(graph)
        names = [str(node.target) for node in graph.graph.nodes if "mm" in str(node.target)]
        error = (_evaluated(graph, *real) - function(*real)).abs().max().item()
        outcomes[function.__name__] = changed, names, error
    return outcomes
