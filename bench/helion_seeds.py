"""Helion's pretuned kernels as kernel files: its seed, neighbours of it, and what was pretuned.

    python bench/helion_seeds.py PRETUNED OUT [--kernels NAME ...] [--shapes 3] [--configs 32]

PRETUNED is the folder ``pretuned_kernels`` of a checkout of https://github.com/pytorch/helion. It
needs ``pip install helion`` and no GPU. OUT gets a kernel file for each kernel with heuristics for
sm_90, with Triton code for each configuration: ``config=0`` is what Helion runs untuned, and its
``PRETUNED`` says which one was pretuned for a case. bench/first_choices.py ranks and times them.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import json
import random
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

KERNEL_FILE = '''"""Helion's {name}: a configuration is Triton code that Helion {version} wrote."""

import functools
import importlib.util
import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "pretuned")]
CASES = json.loads((HERE / "cases.json").read_text())
SHAPES = [{{"case": number}} for number in range(len(CASES))]
SPACE = {{"config": list(range({most}))}}
PRETUNED = {pretuned}
OUTPUTS = {outputs}


@functools.cache
def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def valid(params, shape):
    return params["config"] < CASES[shape.get("case", 0)]["configs"]


def reference({names}):
    del case
    return module(HERE / "pretuned" / "{file}.py").{reference}({own})


def inputs(case=0, device="cuda"):
    return case, *(drawn(argument, device) for argument in CASES[case]["arguments"])


def drawn(argument, device):
    if "shape" not in argument:
        return argument["value"]
    dtype = getattr(torch, argument["dtype"])
    size = 1 + sum((n - 1) * s for n, s in zip(argument["shape"], argument["stride"]))
    if dtype.is_floating_point:
        flat = torch.randn(size, device=device).to(dtype)
    else:
        flat = torch.randint(0, argument["below"], (size,), dtype=dtype, device=device)
    return flat.as_strided(argument["shape"], argument["stride"])


def kernel({names}, *, config=0):
    code = module(HERE / f"case_{{case}}_config_{{config}}.py")
    return code.{name}({own})
'''


PLAIN = '''"""The parts of Helion that generated code calls, without the rest."""

import torch
import triton


def default_launcher(kernel, grid, *arguments, num_warps, num_stages, **options):
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device="cuda"))
    return kernel[grid](*arguments, num_warps=num_warps, num_stages=num_stages, **options)


def get_num_sm(device):
    return torch.cuda.get_device_properties(device).multi_processor_count


class Nothing:
    def __getattr__(self, name):
        return self

    def __call__(self, *arguments, **options):
        return arguments[0] if arguments and callable(arguments[0]) else self


nothing = Nothing()
'''
IMPORTS = {
    "from helion.runtime import default_launcher": "from plain import get_num_sm, default_launcher",
    "from helion.runtime.triton import helpers": "import seed_helpers",
    "import helion.language as hl": "from plain import nothing as hl",
    "import helion\n": "from plain import nothing as helion\n",
    "helion.runtime.get_num_sm": "get_num_sm",
}
"""Replacements in code that should run without Helion, which few torches can import."""


class OnCPU(TorchFunctionMode):
    """Make tensors on the CPU that code wants on a GPU; nothing is drawn: sizes are what counts."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "cuda" in str(kwargs.get("device", "")):
            kwargs["device"] = "cpu"
        if function in (torch.randn, torch.rand):
            function = torch.empty
        return function(*args, **kwargs)


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded  # Helion looks a kernel's globals up there
    spec.loader.exec_module(loaded)
    return loaded


def calls(path: Path, most: int) -> Iterator[tuple[Any, tuple[Any, ...], Callable[..., Any]]]:
    """Yield Helion's kernel, its arguments and the reference in PyTorch, for some shapes."""
    swept: dict[str, Any] = {}
    bench = types.ModuleType("_bench")
    bench.run_sweep = lambda shapes, make_calls, **_: swept.update(shapes=shapes, make=make_calls)
    sys.modules["_bench"] = bench
    torch.compile = lambda function, *_, **__: function
    loaded = load(path)
    loaded.main()
    shapes = list(swept["shapes"])
    chosen = [shapes[place * (len(shapes) - 1) // max(most - 1, 1)] for place in range(most)]
    for shape in dict.fromkeys(chosen):
        seen: list[tuple[Any, tuple[Any, ...]]] = []

        def record(kernel, *args, seen=seen):
            seen.append((kernel, args))
            raise InterruptedError

        kernel_class = importlib.import_module("helion.runtime.kernel").Kernel
        original, kernel_class.__call__ = kernel_class.__call__, record
        try:
            with OnCPU():
                swept["make"](shape)[0]()
        except InterruptedError:
            kernel, args = seen[0]
            yield kernel, args, loaded._baselines()[0][1]
        finally:
            kernel_class.__call__ = original


def configurations(bound: Any, most: int, chance: random.Random) -> Iterator[Any]:
    """Yield Helion's seed, what differs from it in one place, and what differs in a few."""
    from helion.autotuner.config_generation import ConfigGeneration

    generation = ConfigGeneration(bound.config_spec)
    seed = generation.default_flat()
    yield bound.config_spec.default_config()
    single = [
        [*seed[:place], value, *seed[place + 1 :]]
        for place, spec in enumerate(generation.flat_spec)
        for value in spec.pattern_neighbors(seed[place])
    ]
    chance.shuffle(single)
    yield from map(generation.unflatten, single[: most // 2])
    while True:
        flat = list(seed)
        for _ in range(chance.randint(2, 5)):
            place = chance.randrange(len(flat))
            near = list(generation.flat_spec[place].pattern_neighbors(flat[place]))
            flat[place] = chance.choice(near) if near else flat[place]
        yield generation.unflatten(flat)


def generated(bound: Any, most: int, further: Sequence[Any], seed: str) -> list[str]:
    """Return the code of distinct configurations; that of `further` ones comes last."""
    codes: dict[str, None] = {}
    for tried, config in enumerate(configurations(bound, most, random.Random(seed))):
        if len(codes) == most or tried == 3 * most:
            break
        try:
            codes.setdefault(bound.to_triton_code(config))
        except Exception as error:  # Helion refuses some neighbours in errors of many kinds
            print(f"  {type(error).__name__} for {config}"[:160], file=sys.stderr)
    own = [bound.to_triton_code(config) for config in further]
    return [*codes, *own]


def without_helion(code: str) -> str:
    """Return code that imports nothing of Helion."""
    for own, plain in IMPORTS.items():
        code = code.replace(own, plain)
    return code


def described(argument: Any) -> Mapping[str, Any]:
    """Return what `drawn` needs to make an argument."""
    if not isinstance(argument, torch.Tensor):
        return {"value": argument}
    below = 0 if argument.dtype.is_floating_point else int(argument.max()) + 1
    return {
        "shape": list(argument.shape),
        "stride": list(argument.stride()),
        "dtype": str(argument.dtype).removeprefix("torch."),
        "below": below,
    }


def written_arguments(reference: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """Return the names of the arguments that a reference writes."""
    versions = [getattr(argument, "_version", 0) for argument in args]
    reference(*args)
    names = list(inspect.signature(reference).parameters)
    return [
        name
        for name, argument, version in zip(names, args, versions, strict=False)
        if getattr(argument, "_version", 0) != version
    ]


def write_kernel(path: Path, out: Path, shapes: int, configs: int) -> str:
    """Write the kernel file of a pretuned kernel; return what was written."""
    import helion

    tuned = load(next(path.parent.glob("*_sm90.py")))
    folder = out / path.stem
    (folder / "pretuned").mkdir(parents=True, exist_ok=True)
    (folder / "pretuned" / path.name).write_text(without_helion(path.read_text()))
    (folder / "plain.py").write_text(PLAIN)
    helpers = Path(helion.__file__).parent / "runtime" / "triton" / "helpers.py"
    (folder / "seed_helpers.py").write_text(helpers.read_text())
    cases, pretuned, name = [], {}, path.stem
    for number, (kernel, args, reference) in enumerate(calls(path, shapes)):
        bound, name = kernel.bind(args), kernel.fn.__name__
        heuristic = getattr(tuned, f"autotune_{name}")
        taken = inspect.signature(heuristic).parameters.values()
        is_keyed = all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in taken)
        best = helion.Config(**heuristic(*(kernel._key_fn(*args) if is_keyed else args)))
        codes = generated(bound, configs, [best], f"{name} {number}")
        for place, code in enumerate(codes):
            (folder / f"case_{number}_config_{place}.py").write_text(without_helion(code))
        pretuned[number] = len(codes) - 1
        filled = inspect.signature(reference).bind(*args)
        filled.apply_defaults()
        cases.append({"arguments": list(map(described, args)), "configs": len(codes)})
        if number == 0:
            outputs = written_arguments(reference, args)
            names = list(filled.arguments)[: len(args)]
    (folder / "cases.json").write_text(json.dumps(cases))
    text = KERNEL_FILE.format(
        name=name, file=path.stem, version=getattr(helion, "__version__", ""), pretuned=pretuned,
        most=max(case["configs"] for case in cases), outputs=tuple(outputs),
        names=", ".join(["case", *names]), own=", ".join(names), reference=reference.__name__,
    )  # fmt: skip
    (folder / "kernel.py").write_text(text)
    return f"{name}: {len(cases)} shapes, {[case['configs'] for case in cases]} configurations"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pretuned", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kernels", nargs="+", metavar="NAME")
    parser.add_argument("--shapes", type=int, default=3)
    parser.add_argument("--configs", type=int, default=32)
    options = parser.parse_args()
    for tuned in sorted(options.pretuned.glob("*/*_sm90.py")):
        path = tuned.parent / f"{tuned.parent.name}.py"
        if options.kernels and path.stem not in options.kernels:
            continue
        try:
            print(write_kernel(path, options.out, options.shapes, options.configs), flush=True)
        except Exception as error:  # one kernel that this torch cannot trace costs no other
            print(f"{path.stem}: {type(error).__name__}: {error}"[:400], flush=True)


if __name__ == "__main__":
    main()
