"""Compile TileLang and CuTe DSL kernels here, so that they can be measured where neither is.

    python bench/generated_cubins.py OUT KERNEL.py ... [--device h200] [--most 10]

Writes cubins for configurations of each kernel file, and a kernel file of the same problem whose
candidate launches them by the driver, with the packed arguments that a run on the fake GPU gave.
Its parameter ``config`` numbers them; OUT/KERNEL.json has their parameters, registers and modelled
time.
``solkit tune OUT/KERNEL.py --no-prior`` measures them on that GPU, as any candidate.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from solkit.core import Device
from solkit.errors import SolkitError

LAUNCHER = """
import ctypes, json
from pathlib import Path

HERE = Path(__file__).parent
CONFIGS = json.loads((HERE / "{name}.json").read_text())
SPACE = {{"config": list(range(len(CONFIGS)))}}
DTYPES = {{str(d): d for d in vars(torch).values() if isinstance(d, torch.dtype)}}
_functions = {{}}
_cuda = None


def _check(code, what):
    if code:
        raise RuntimeError(f"{{what}}: CUDA error {{code}}")


def _driver():
    global _cuda
    if _cuda is None:
        _cuda = ctypes.CDLL("libcuda.so.1")
    return _cuda


def _function(file, entry, shared):
    key = file, entry
    if key not in _functions:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        image = (HERE / file).read_bytes()
        _check(_driver().cuModuleLoadData(ctypes.byref(module), image), "cuModuleLoadData")
        _check(_driver().cuModuleGetFunction(ctypes.byref(function), module, entry.encode()), entry)
        _check(_driver().cuFuncSetAttribute(function, 8, shared), "shared memory")
        _check(_driver().cuFuncSetAttribute(function, 14, 1), "cluster size")
        _functions[key] = function
    return _functions[key]


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


def _packed(argument, tensors, align=64):
    data = bytearray(bytes.fromhex(argument["data"]))
    for offset, (number, ahead) in argument["tensors"]:
        address = tensors[number].untyped_storage().data_ptr() + ahead
        data[offset : offset + 8] = address.to_bytes(8, "little")
    raw = (ctypes.c_char * (len(data) + align))()
    at = -ctypes.addressof(raw) % align
    if argument["map"]:
        kind, rank, *rest = argument["map"]
        sizes, strides, box, steps = (rest[n * rank : (n + 1) * rank] for n in range(4))
        settings = rest[4 * rank :]
        address = int.from_bytes(data[:8], "little")
        u64, u32 = ctypes.c_uint64, ctypes.c_uint32
        _check(
            _driver().cuTensorMapEncodeTiled(
                ctypes.c_void_p(ctypes.addressof(raw) + at), kind, rank, ctypes.c_void_p(address),
                (u64 * rank)(*sizes), (u64 * rank)(*strides[1:], 0), (u32 * rank)(*box),
                (u32 * rank)(*steps), *settings,
            ),
            "cuTensorMapEncodeTiled",
        )
    else:
        raw[at : at + len(data)] = bytes(data)
    return raw, ctypes.addressof(raw) + at


def kernel(*inputs, config=0):
    chosen = CONFIGS[config]
    made = {{}}
    tensors = {{n: t for n, t in enumerate(inputs)}}
    for number, size in chosen["outputs"]:
        shape, dtype = size
        make = torch.zeros if chosen["zeroed"] else torch.empty
        tensors[number] = made[number] = make(shape, dtype=DTYPES[dtype], device=inputs[0].device)
    results = list(made.values())
    if type(inputs[0]).__name__ == "FakeTensor":  # there is no driver
        [tensor.data_ptr() for tensor in inputs]  # which would read there
        return results[0] if len(results) == 1 else tuple(results)
    for launch in chosen["launches"]:
        function = _function(launch["file"], launch["entry"], launch["shared"])
        packed = [_packed(argument, tensors) for argument in launch["arguments"]]
        pointers = (ctypes.c_void_p * len(packed))(*[at for _, at in packed])
        attribute = _Attribute(4, 0, (ctypes.c_uint * 16)(*launch["cluster"]))
        settings = _Config(
            (ctypes.c_uint * 3)(*launch["grid"]), (ctypes.c_uint * 3)(*launch["block"]),
            launch["shared"], torch.cuda.current_stream().cuda_stream,
            ctypes.pointer(attribute), int(launch["cluster"] != [1, 1, 1]),
        )
        launched = _driver().cuLaunchKernelEx(ctypes.byref(settings), function, pointers, None)
        _check(launched, "cuLaunchKernelEx")
    return results[0] if len(results) == 1 else tuple(results)
"""


def export(out: Path, device_name: str, path: Path, most: int) -> None:
    """Write configurations of one kernel file; runs in a process of its own."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from solkit import kernelfiles
    from solkit.adapters import fake_cuda
    from solkit.analysis import worker
    from solkit.analysis.autotuned_configs import find_launched_space
    from solkit.roofline import devices

    device = devices.find(device_name)
    worker.fake_device(device)
    binaries = keeping_binaries()
    configs: list[dict[str, Any]] = []
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(str(path), None)
        find_launched_space(loaded)
        shape = loaded.description.problem.shapes[0]
        for number, point in enumerate(list(loaded.space(shape).shuffled(1))[:most]):
            name = f"{path.stem}_{number}"
            try:
                config = exported(loaded, shape, point, device, out / name, binaries)
            except SolkitError as error:
                print(f"{path.name} {point}: {error}"[:200])
                continue
            config["zeroed"] = "torch.zeros" in path.read_text()
            configs.append(config)
            print(f"{path.name} {point}: {1000 * config['modelled_ms']:.2f} us", flush=True)
    (out / f"{path.stem}.json").write_text(json.dumps(configs))
    (out / path.name).write_text(problem_text(path) + LAUNCHER.format(name=path.stem))


def keeping_binaries() -> dict[str, bytes]:
    """Return a dict that gets the cubin of each kernel that is compiled from now on."""
    from solkit.analysis.cuda import compiling

    binaries: dict[str, bytes] = {}
    original = compiling._compiled_by_kernel

    def kept(cubin: Any, *rest: Any) -> Any:
        binaries.update(dict.fromkeys(cubin.names.values(), cubin.binary))
        return original(cubin, *rest)

    setattr(*(compiling, "_compiled_by_kernel", kept))
    return binaries


def exported(
    loaded: Any, shape: Any, point: Any, device: Device, stem: Path, binaries: dict[str, bytes]
) -> dict[str, Any]:
    """Write the cubins of one configuration; returns what a launcher needs.

    Raises:
        SolkitError: it cannot run on the device, or its time cannot be modelled.
    """
    from solkit.adapters import fake_cuda
    from solkit.analysis import cuda
    from solkit.analysis.facts import extension_facts
    from solkit.analysis.triton.capture import storages_of
    from solkit.kernelfiles.seeding import seeded_workload
    from solkit.roofline.kernel.evaluate import described

    with cuda.recording() as seen, fake_cuda.watching_guesses():
        workload = seeded_workload(loaded, shape, point)
        outputs = workload.run_kernel()
    pairs, unknown, _ = extension_facts(seen.launches, device)
    kernels = [described(facts, device) for facts, _ in pairs]
    models = [kernel.model for kernel in kernels if kernel.model is not None]
    if unknown or len(models) < max(len(kernels), 1):
        errors = [kernel.error for kernel in kernels if kernel.error]
        raise SolkitError("; ".join((*errors, *unknown)) or "it launches nothing that is followed")
    numbers = {storage: n for n, storage in enumerate(storages_of(workload.tensors()))}
    made = []
    for tensor, storage in zip(outputs, storages_of(outputs)):
        if storage not in numbers:
            numbers[storage] = len(numbers)
            made.append([numbers[storage], [list(tensor.shape), str(tensor.dtype)]])
    launches = []
    for index, launch in enumerate(seen.launches):
        file = stem.with_name(f"{stem.name}_{index}.cubin")
        file.write_bytes(binaries[launch.host.kernel])
        launches.append(packed_launch(launch.generated, file.name, numbers))
    return {
        "params": dict(point),
        "modelled_ms": sum(model.time_ms for model in models),
        "outputs": made,
        "launches": launches,
        "registers": [facts.registers for facts, _ in pairs],
    }


def packed_launch(launch: Any, file: str, numbers: dict[int, int]) -> dict[str, Any]:
    """Return a launch with its arguments as bytes, and the tensors among them by number."""
    from solkit.adapters.launch_recording import PackedArgument, TensorArgument

    arguments = []
    for place, argument in enumerate(launch.arguments):
        data, tensors = b"\0" * 8, dict[int, TensorArgument]()
        if isinstance(argument, TensorArgument):
            tensors[0] = argument
        elif isinstance(argument, PackedArgument):
            data, tensors = argument.data, dict(argument.tensors)
        elif isinstance(argument, int):
            data = int(argument).to_bytes(8, "little", signed=True)
        elif isinstance(argument, float):
            data = struct.pack("<f", argument)
        arguments.append(
            {
                "data": data.hex(),
                "tensors": [
                    [offset, [numbers[t.storage], t.offset_bytes]] for offset, t in tensors.items()
                ],
                "map": list(launch.encodings.get(place, ())),
            }
        )
    return {
        "file": file,
        "entry": launch.kernel,
        "grid": launch.grid,
        "block": launch.block,
        "cluster": list(launch.cluster),
        "shared": launch.shared_bytes,
        "arguments": arguments,
    }


def problem_text(path: Path) -> str:
    """Return the parts of a kernel file that say what must be computed."""
    tree = ast.parse(path.read_text())
    lines = path.read_text().splitlines()
    wanted = ("reference", "inputs")
    parts = ["import torch"]
    for node in tree.body:
        is_part = isinstance(node, ast.FunctionDef) and node.name in wanted
        names = [getattr(t, "id", "") for t in getattr(node, "targets", [])]
        if is_part or "TOLERANCE" in names:
            parts.append("\n".join(lines[node.lineno - 1 : node.end_lineno]))
    return "\n\n".join(parts) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Export configurations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("kernels", nargs="*", type=Path)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--most", type=int, default=10)
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in arguments.kernels:
        child = os.fork()
        if not child:
            export(arguments.out, arguments.device, path, arguments.most)
            os._exit(0)
        os.waitpid(child, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
