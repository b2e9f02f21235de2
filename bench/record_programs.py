"""Record real programs, launch every recorded kernel again, and compare with the program's outputs.

    python bench/record_programs.py --work /tmp/recorded --json record_programs.json   # needs a GPU

Needs ``liger-kernel``, ``transformers``, ``fla-core`` with ``flash-linear-attention``, and
``flag-gems``; a program whose package is missing is skipped by name. Each program runs in a process
of its own, and so does the launching of its kernel files, which cannot import the packages. Inputs
and outputs of the first launch of a kind are kept in the work folder for the comparison alone. A
program that stands in the JSON is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_KEPT_BYTES = 6 << 30
PACKAGES = ("liger_kernel", "transformers", "fla", "flag_gems")


# --------------------------------------------------------------------------------------- programs


def llama():
    """A small Llama with random weights, and its tokens."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=3,
        num_attention_heads=16,
        num_key_value_heads=4,
    )
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16)
    return model, torch.randint(0, 8192, (2, 512), device="cuda")


def training_step(model: Any, tokens: Any) -> Callable[[], Any]:
    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(input_ids=tokens, labels=tokens).loss.backward()

    return step


def liger_training() -> Callable[[], Any]:
    from liger_kernel.transformers import apply_liger_kernel_to_llama

    apply_liger_kernel_to_llama()
    return training_step(*llama())


def compiled_training() -> Callable[[], Any]:
    import torch

    model, tokens = llama()
    return training_step(torch.compile(model), tokens)


def gated_delta_net() -> Callable[[], Any]:
    import torch
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    torch.manual_seed(0)
    shape = 2, 1024, 8, 128
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    k = torch.nn.functional.normalize(k.float(), dim=-1).to(k.dtype)
    beta = torch.rand(shape[:3], dtype=torch.bfloat16, device="cuda")
    gate = torch.nn.functional.logsigmoid(torch.rand(shape[:3], device="cuda"))

    def step() -> None:
        with torch.no_grad():
            chunk_gated_delta_rule(q, k, v, gate, beta)

    return step


def flag_gems_operators() -> Callable[[], Any]:
    """Ten operators of FlagGems, which stands in for PyTorch's from the first step on."""
    import flag_gems
    import torch

    torch.manual_seed(0)
    x, w = (torch.randn(4096, 2048, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    weight = torch.randn(2048, 2048, dtype=torch.bfloat16, device="cuda")
    scale = torch.randn(2048, dtype=torch.bfloat16, device="cuda")
    functions = torch.nn.functional
    operators = (
        lambda: x @ weight,
        lambda: functions.layer_norm(x, (2048,), scale, scale),
        lambda: functions.rms_norm(x, (2048,), scale),
        lambda: torch.softmax(x, -1),
        lambda: functions.gelu(x),
        lambda: functions.silu(x) * w,
        lambda: x.sum(-1),
        lambda: torch.cumsum(x, -1),
        lambda: torch.where(x > 0, x, w),
        lambda: x.amax(-1),
    )
    torch.cuda.synchronize()
    flag_gems.enable()

    def step() -> None:
        with torch.no_grad():
            for operator in operators:
                operator()

    return step


PROGRAMS = {
    "liger_training": liger_training,
    "compiled_training": compiled_training,
    "gated_delta_net": gated_delta_net,
    "flag_gems_operators": flag_gems_operators,
}


# -------------------------------------------------------------------------------------- recording


class Keeper:
    """Keeps inputs and outputs of each distinct launch in a folder, by the record's digest."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._before, self._bytes = folder, {}, 0

    def __call__(self, when: str, number: int, pending: Any) -> None:
        import torch

        if torch.cuda.is_current_stream_capturing():
            return
        tensors = {path: tensor.detach().to("cpu", copy=True) for path, tensor in pending.tensors()}
        if when == "before":
            self._before[number] = tensors
            return
        from solkit.integrations.launch_spaces import record_of_launch

        before = self._before.pop(number)
        self._bytes += sum(t.nbytes for t in (*before.values(), *tensors.values()))
        if self._bytes < MOST_KEPT_BYTES:
            digest = record_of_launch(pending.requested()).digest
            torch.save({"before": before, "after": tensors}, self._folder / f"{digest}.pt")


def time_step(step: Callable[[], Any], times: int = 20) -> float:
    """Return the median wall time of a step in ms."""
    import torch

    taken_ms = []
    for _ in range(times):
        torch.cuda.synchronize()
        start_s = time.perf_counter()
        step()
        torch.cuda.synchronize()
        taken_ms.append(1e3 * (time.perf_counter() - start_s))
    return statistics.median(taken_ms)


def record_program(name: str, work: Path) -> dict[str, Any]:
    """Record a program; return the times of its steps."""
    import torch

    from solkit.integrations.recorder import LaunchRecorder

    (work / name / "tensors").mkdir(parents=True, exist_ok=True)
    step = PROGRAMS[name]()
    recorder = LaunchRecorder(work / name, observe=Keeper(work / name / "tensors"))
    recorder.start()  # before the first launch, which may tune
    step()
    step()
    torch.cuda.synchronize()
    within_ms = time_step(step)
    recorder.close()
    after_ms = time_step(step)
    again_ms = time_step(step)
    return {"within_ms": within_ms, "after_ms": after_ms, "after_again_ms": again_ms}


# ---------------------------------------------------------------------------------------- replays


class Forbidden:
    """Lets no package of the programs be imported."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name.partition(".")[0] in PACKAGES:
            raise ImportError(f"{name} must not be needed")


def load_file(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"recorded_{Path(path).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launch_paths(record: Any) -> list[str]:
    from solkit.datasets.launch_files import tensor_paths

    return tensor_paths(record)


def replay_launch(kernel: Any, record: Any, sizes: Any, kept: Any) -> dict[str, Any]:
    """Launch a recorded kernel on the program's own inputs; return how its outputs differ."""
    import torch

    module = load_file(kernel.path)
    drawn = module.inputs(**sizes)
    module.kernel(*drawn)  # on drawn inputs: it must not fail
    drawn = module.inputs(**sizes)
    tensors = [draw for draw in drawn if isinstance(draw, torch.Tensor)]
    paths = launch_paths(record)
    for path, tensor in zip(paths, tensors, strict=True):
        tensor.copy_(kept["before"][path].reshape(tensor.shape))
    module.kernel(*drawn)
    torch.cuda.synchronize()
    worst, equal = 0.0, True
    for path, tensor in zip(paths, tensors, strict=True):
        want = kept["after"][path].reshape(tensor.shape)
        got = tensor.cpu()
        same = torch.equal(got.nan_to_num(), want.nan_to_num()) if got.numel() else True
        equal &= same
        if not same:
            difference = (got.double() - want.double()).abs().nan_to_num().max()
            worst = max(
                worst, float(difference / want.double().abs().nan_to_num().max().clamp(1e-9))
            )
    return {"equal": equal, "relative_error": worst}


def replay_program(name: str, work: Path) -> list[dict[str, Any]]:
    """Launch every kernel file of a recording; one row for each distinct launch."""
    import torch

    from solkit.datasets.launch_recordings import (
        kernels_of_recording,
        read_launch_recording,
        write_kernel_files,
    )

    sys.meta_path.insert(0, Forbidden())  # type: ignore[arg-type]
    recording = read_launch_recording(work / name)
    rows: list[dict[str, Any]] = []
    for kernel in write_kernel_files(recording):
        for record, sizes in zip(kernel.launches, kernel.sizes, strict=True):
            row = {"kernel": kernel.name, "sizes": dict(sizes), "calls": record.calls}
            file = work / name / "tensors" / f"{record.digest}.pt"
            try:
                if file.exists():
                    row |= replay_launch(kernel, record, sizes, torch.load(file))
                else:
                    row["error"] = "its tensors were not kept"
            except Exception as error:  # the row says it
                row["error"] = f"{type(error).__name__}: {error}"[:400]
            rows.append(row)
    rows += [{"kernel": "", "error": reason} for reason in kernels_of_recording(recording)[1]]
    return rows


# ------------------------------------------------------------------------------------------- main


def run_child(part: str, name: str, work: Path) -> Any:
    """Run a part in a process of its own; return what it writes."""
    out = work / f"{name}.{part}.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, __file__, "--work", str(work), "--part", part, "--programs", name]
    ended = subprocess.run(command, env=os.environ, check=False, capture_output=True, text=True)
    for line in ended.stderr.splitlines():
        if line.startswith("solkit:"):
            print(f"{name}: {line}", flush=True)
    if not out.exists():
        lines = (ended.stderr.strip() or f"exit code {ended.returncode}").splitlines()
        return {"error": " | ".join(lines[-3:])}
    return json.loads(out.read_text())


def summarise(name: str, rows: list[dict[str, Any]]) -> str:
    equal = sum(bool(row.get("equal")) for row in rows)
    close = sum(not row.get("equal") and row.get("relative_error", 1.0) < 2e-2 for row in rows)
    errors = [row for row in rows if "error" in row]
    kernels = len({row["kernel"] for row in rows if row.get("equal")})
    return (
        f"{name}: {kernels} kernels, {len(rows)} launches: {equal} equal, {close} within 2 %, "
        f"{len(rows) - equal - close - len(errors)} differ, {len(errors)} with an error"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for recordings and tensors"
    )
    parser.add_argument("--json", type=Path, help="results; programs in it are not run again")
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--part", choices=["record", "replay"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.part:
        (name,) = options.programs
        part = record_program if options.part == "record" else replay_program
        answer = part(name, options.work)
        (options.work / f"{name}.{options.part}.json").write_text(json.dumps(answer, indent=1))
        return 0
    results: dict[str, Any] = {}
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text())
    for name in options.programs:
        if name in results:
            continue
        times = run_child("record", name, options.work)
        if "error" in times:
            print(f"{name}: not recorded: {times['error']}", flush=True)
            continue
        rows = run_child("replay", name, options.work)
        if isinstance(rows, dict):
            print(f"{name}: not launched again: {rows['error']}", flush=True)
            continue
        results[name] = {"steps": times, "launches": rows}
        print(summarise(name, rows), times, flush=True)
        for row in rows:
            if not row.get("equal"):
                print(f"    {row}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
