"""Measure kernels of other languages on a machine that has none of them.

    python bench/generated_cubins.py export OUT [KERNEL.py | languages ...] [--most 10]
    solkit data collect OUT --per-shape 10 --gpu-seconds 200 --log rows.jsonl
    python bench/generated_cubins.py rows OUT rows.jsonl --log own.jsonl

``export`` runs where the languages are, without a GPU, and continues where it stopped. It writes
cubins for configurations of each kernel file (TileLang, CuTe DSL, cuTile), and a kernel file of the
same problem that launches them by the driver, with the packed arguments that a run on the fake GPU
gave. Its parameter ``config`` numbers them. ``OUT/FAMILY/KERNEL.json`` has their parameters, facts
and modelled times. Files of Triton are copied: it is there on every machine.

``solkit data collect`` measures and checks them on the GPU, and continues where it stopped.
``rows`` gives each row back its kernel's file, parameters and facts. ``solkit data import STORE
own.jsonl`` makes a set of them.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import json
import os
import shutil
import struct
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from solkit.core import Depth, Device, Facts, Outcome, StoredFacts
from solkit.datasets import outcomelog
from solkit.datasets.facts import COMPILER, facts_id
from solkit.datasets.kernels import Kernel, select_kernels
from solkit.errors import SolkitError
from solkit.processes.host import describe_ending

PROBLEM = {"KIND", "SHAPES", "TOLERANCE", "inputs", "reference"}
LANGUAGES = {"tilelang": "tilelang", "cuda.tile": "cuda-tile", "cutlass": "nvidia-cutlass-dsl"}
"""The distribution of each language, by what a kernel file imports."""

LAUNCHER = """
import ctypes, functools, json
from pathlib import Path
from solkit.adapters.binary_kernels import BinaryLaunch, launch_packed, read_binary

HERE = Path(__file__).parent
CONFIGS = json.loads((HERE / "{name}.json").read_text())
SPACE = {{"config": list(range(len(CONFIGS)))}}
DTYPES = {{str(d): d for d in vars(torch).values() if isinstance(d, torch.dtype)}}
_binary = functools.cache(read_binary)


def _encode(*arguments):
    code = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(*arguments)
    if code:
        raise RuntimeError(f"cuTensorMapEncodeTiled: CUDA error {{code}}")


def _packed(argument, tensors, align=64):
    data = bytearray(bytes.fromhex(argument["data"]))
    for offset, (number, ahead) in argument["tensors"]:
        address = tensors[number].untyped_storage().data_ptr() + ahead
        data[offset : offset + 8] = address.to_bytes(8, "little")
    raw = (ctypes.c_char * (max(len(data), 128) + align))()  # a CUtensorMap has 128 bytes
    at = -ctypes.addressof(raw) % align
    if argument["map"]:
        kind, rank, *rest = argument["map"]
        sizes, strides, box, steps = (rest[n * rank : (n + 1) * rank] for n in range(4))
        settings = rest[4 * rank :]
        address = int.from_bytes(data[:8], "little")
        u64, u32 = ctypes.c_uint64, ctypes.c_uint32
        _encode(
            ctypes.c_void_p(ctypes.addressof(raw) + at), kind, rank, ctypes.c_void_p(address),
            (u64 * rank)(*sizes), (u64 * rank)(*strides[1:], 0), (u32 * rank)(*box),
            (u32 * rank)(*steps), *settings,
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
        packed = [_packed(argument, tensors) for argument in launch["arguments"]]
        sizes = (tuple(launch[name]) for name in ("grid", "block", "cluster"))
        how = BinaryLaunch(*sizes, launch["shared"])
        binary = _binary(str(HERE / launch["file"]), launch["entry"])
        launch_packed(binary, how, [at for _, at in packed])
    return results[0] if len(results) == 1 else tuple(results)
"""


def export(out: Path, device_name: str, kernel: Kernel, most: int) -> None:
    """Write configurations of one kernel file; runs in a process of its own."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from solkit import kernelfiles
    from solkit.adapters import fake_cuda
    from solkit.analysis import worker
    from solkit.analysis.autotuned_configs import find_launched_space
    from solkit.roofline import devices

    device, stem = devices.find(device_name), kernel.path.stem
    language = language_of(kernel) or "triton"
    worker.fake_device(device)
    binaries = keeping_binaries()
    listed = out / f"{stem}.json"
    configs: list[dict[str, Any]] = json.loads(listed.read_text()) if listed.exists() else []
    (out / kernel.path.name).write_text(problem_text(kernel.path) + LAUNCHER.format(name=stem))
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(str(kernel.path), None)
        find_launched_space(loaded)
        shape = loaded.description.problem.shapes[0]
        done = [config["params"] for config in configs]
        points = (point for point in loaded.space(shape).shuffled(1) if dict(point) not in done)
        for point in points if len(configs) < most else ():
            try:
                name = f"{stem}_{len(configs)}"
                config = exported(loaded, shape, point, device, out / name, binaries)
            except Exception as error:  # a language may refuse a configuration by any
                text = f"{kernel.name} {dict(point)}: {type(error).__name__}: {error}"
                print(text[:300].replace("\n", " "), flush=True)
                continue
            config["zeroed"] = "torch.zeros" in kernel.source.text
            config["compiler"] = f"{language} {importlib.metadata.version(language)}"
            configs.append(config)
            listed.write_text(json.dumps(configs))
            result = "unknown" if (ms := config["modelled_ms"]) is None else f"{1000 * ms:.2f} us"
            print(f"{kernel.name} {dict(point)}: {result}", flush=True)
            if len(configs) == most:
                break


def keeping_binaries() -> dict[str, bytes]:
    """Return a dict that gets the cubin of each kernel of generated code compiled from now on."""
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
        SolkitError: it cannot run on the device, or its launches are not understood.
    """
    from solkit.adapters import fake_cuda, launch_recording
    from solkit.adapters.launch_records import roles_of_storages, with_records
    from solkit.analysis import cuda
    from solkit.analysis.facts import extension_facts, launch_facts
    from solkit.analysis.triton.capture import storages_of
    from solkit.datasets.facts import facts_to_json
    from solkit.kernelfiles.seeding import seeded_workload
    from solkit.roofline.kernel.evaluate import described

    with (
        cuda.recording() as seen,
        launch_recording.recording_launches(point) as tiled,
        fake_cuda.watching_guesses(),
    ):
        workload = seeded_workload(loaded, shape, point)
        outputs = workload.run_kernel()
    roles = roles_of_storages(storages_of(workload.tensors()), storages_of(outputs))
    tiles = with_records(tiled.launches, roles)
    compiled = [launch.kernel.function.compile(launch.kernel, device) for launch in tiles]
    pairs, unknown, _ = extension_facts(seen.launches, device)
    pairs += launch_facts(tiles, lambda _: compiled, device)
    kernels = [described(facts, device) for facts, _ in pairs]
    errors = [kernel.error for kernel in kernels if kernel.error]
    if unknown or errors or not kernels:
        raise SolkitError("; ".join((*errors, *unknown)) or "it launches nothing that is followed")
    numbers = {storage: n for n, storage in enumerate(storages_of(workload.tensors()))}
    results = []
    for tensor, storage in zip(outputs, storages_of(outputs)):
        if storage not in numbers:
            numbers[storage] = len(numbers)
            results.append([numbers[storage], [list(tensor.shape), str(tensor.dtype)]])
    launches, images = [], [binaries[launch.host.kernel] for launch in seen.launches]
    for launch in seen.launches:
        launches.append(packed_launch(launch.generated, numbers))
    for launch, binary in zip(tiles, compiled):
        images.append(binary.cubin)
        launches.append(cutile_launch(launch, binary, numbers))
    for index, (image, packed) in enumerate(zip(images, launches)):
        packed["file"] = f"{stem.name}_{index}.cubin"
        stem.with_name(packed["file"]).write_bytes(image)
    records = [launch.launch for launch in (*tiles, *seen.launches) if launch.launch is not None]
    captured = [Facts(record, Depth.CAPTURED) for record in records]
    times = [kernel.model.time_ms if kernel.model else None for kernel in kernels]
    return {
        "params": dict(point),
        "modelled_ms": None if None in times else sum(times),
        "outputs": results,
        "launches": launches,
        "registers": [facts.registers for facts, _ in pairs],
        "facts": facts_to_json([facts for facts, _ in pairs]),
        "captured": facts_to_json(captured),
    }


def cutile_launch(launch: Any, binary: Any, numbers: dict[int, int]) -> dict[str, Any]:
    """Return a launch of cuTile's: an array is its address, its shape and its strides.

    Raises:
        SolkitError: the cubin takes other parameters.
    """
    from solkit.adapters import cubin
    from solkit.adapters.launch_recording import TensorArgument

    (function,) = cubin.parse_functions(binary.cubin).values()
    flat: list[Any] = []
    for name, argument in launch.arguments.items():
        if isinstance(argument, TensorArgument):
            flat += (argument, *argument.shape, *argument.strides)
        elif str(launch.kernel.signature[name]) != "constexpr":
            flat.append(argument)
    if len(flat) != len(function.parameters):
        counts = f"{len(function.parameters)} parameters, not {len(flat)}"
        raise SolkitError(f"the cubin of {launch.launch.name} takes {counts}")
    return {
        "entry": function.name,
        "grid": list(launch.launch.grid),
        "block": list(function.threads or (binary.num_warps * 32, 1, 1)),
        "cluster": [1, 1, 1],  # the driver knows the kernel's own
        "shared": 0,
        "arguments": [packed_argument(argument, numbers) for argument in flat],
    }


def packed_launch(launch: Any, numbers: dict[int, int]) -> dict[str, Any]:
    """Return a launch with its arguments as bytes, and the tensors among them by number."""
    arguments = [
        {**packed_argument(argument, numbers), "map": list(launch.encodings.get(place, ()))}
        for place, argument in enumerate(launch.arguments)
    ]
    return {
        "entry": launch.kernel,
        "grid": launch.grid,
        "block": launch.block,
        "cluster": list(launch.cluster),
        "shared": launch.shared_bytes,
        "arguments": arguments,
    }


def packed_argument(argument: Any, numbers: dict[int, int]) -> dict[str, Any]:
    """Return an argument as C has it, and the tensors in it by number."""
    from solkit.adapters.launch_recording import PackedArgument, TensorArgument

    data, tensors = b"\0" * 8, dict[int, TensorArgument]()
    if isinstance(argument, TensorArgument):
        tensors[0] = argument
    elif isinstance(argument, PackedArgument):
        data, tensors = argument.data, dict(argument.tensors)
    elif isinstance(argument, int):
        data = int(argument).to_bytes(8, "little", signed=True)
    elif isinstance(argument, float):
        data = struct.pack("<f", argument)
    places = [[at, [numbers[t.storage], t.offset_bytes]] for at, t in tensors.items()]
    return {"data": data.hex(), "tensors": places, "map": []}


def problem_text(path: Path) -> str:
    """Return the parts of a kernel file that say what must be computed."""
    tree = ast.parse(path.read_text())
    lines = path.read_text().splitlines()
    parts = ["import torch"]
    for node in tree.body:
        names = {getattr(t, "id", "") for t in getattr(node, "targets", [])}
        if isinstance(node, ast.FunctionDef):
            names = {node.name}
        elif isinstance(node, ast.ImportFrom):
            names = {name.asname or name.name for name in node.names}
        if names & PROBLEM:
            parts.append("\n".join(lines[node.lineno - 1 : node.end_lineno]))
    return "\n\n".join(parts) + "\n"


def export_all(arguments: argparse.Namespace) -> int:
    """Export configurations of all files, each in a process of its own; 1 if one of them failed."""
    failed = []
    for kernel in select_kernels(arguments.kernels):
        folder = arguments.out / kernel.family
        folder.mkdir(parents=True, exist_ok=True)
        if kernel.problem.sha256 != kernel.source.sha256:
            (folder / "problem.py").write_text(kernel.problem.text)
        if language_of(kernel) is None:
            shutil.copy(kernel.path, folder)
        else:
            child = os.fork()
            if not child:
                run_child(folder, arguments.device, kernel, arguments.most)
            if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                failed.append(f"{kernel.name}: {describe_ending(code)}")
    for line in failed:
        print(f"generated_cubins: {line}", file=sys.stderr)
    return 1 if failed else 0


def run_child(*about: Any) -> NoReturn:
    """Export in a fork, which never returns into the program that it was forked from."""
    try:
        export(*about)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def language_of(kernel: Kernel) -> str | None:
    """Return the distribution of a kernel's language; ``None`` for Triton's."""
    imported = {
        name.name
        for node in ast.walk(ast.parse(kernel.source.text))
        if isinstance(node, ast.Import)
        for name in node.names
    }
    return next((LANGUAGES[name] for name in sorted(imported & {*LANGUAGES})), None)


def rewrite_rows(arguments: argparse.Namespace) -> int:
    """Write a log whose rows have the kernels and parameters that were compiled."""
    kernels = {kernel.name: kernel for kernel in select_kernels(arguments.kernels)}
    contents = outcomelog.read(arguments.rows)
    held = {facts.id: facts for facts in contents.facts}
    with outcomelog.OutcomeLog(arguments.log, about={"command": "generated_cubins rows"}) as log:
        for row in contents.rows:
            kernel = kernels[row.implementation or ""]
            if "config" in row.params:
                own, facts = compiled_elsewhere(row, kernel, arguments.out)
            else:
                own = replace(row, origin=kernel.origin)
                facts = [held[row.facts_id]] if row.facts_id in held else []
            log.append([own], kernel.files, facts)
    return 0


def compiled_elsewhere(
    row: Outcome, kernel: Kernel, out: Path
) -> tuple[Outcome, list[StoredFacts]]:
    """Return a row of an exported kernel as its own kernel's, and the facts."""
    configs = json.loads((out / kernel.family / f"{kernel.path.stem}.json").read_text())
    config = configs[int(row.params["config"])]
    own = replace(
        row,
        kernel_id=kernel.kernel_id,
        origin=kernel.origin,
        params=config["params"],
        source_sha256=kernel.source.sha256,
        problem_sha256=kernel.problem.sha256,
        triton_version=None,
        live_launches=(),
        extra={**row.extra, COMPILER: config["compiler"]},
    )
    text = kernel.source.text
    compiled = StoredFacts(facts_id(own, text), config["facts"])
    captured = StoredFacts(facts_id(own, text, Depth.CAPTURED), config["captured"])
    return replace(own, facts_id=compiled.id), [compiled, captured]


def main(argv: Sequence[str] | None = None) -> int:
    """Export configurations, or rewrite rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    exporting = commands.add_parser("export")
    exporting.add_argument("out", type=Path)
    exporting.add_argument("kernels", nargs="*", default=["languages"])
    exporting.add_argument("--device", default="h200")
    exporting.add_argument("--most", type=int, default=10)
    exporting.set_defaults(run=export_all)
    rows = commands.add_parser("rows")
    rows.add_argument("out", type=Path)
    rows.add_argument("rows", type=Path)
    rows.add_argument("kernels", nargs="*", default=["languages"])
    rows.add_argument("--log", type=Path, required=True)
    rows.set_defaults(run=rewrite_rows)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except SolkitError as error:
        print(f"generated_cubins: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
