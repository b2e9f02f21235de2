"""Record real programs, tune what they launch, and run them with and without what was tuned.

    python bench/apply_programs.py --work /tmp/applied --json apply_programs.json   # needs a GPU
    python bench/apply_programs.py --work /tmp/applied --json apply_programs.json --overhead

The programs are those of ``record_programs.py``. Each stage (record, tune, verify, compare) is a
process of SolKit's own commands; a stage that stands in the JSON is not run again, nor is a run of
one that was cut, so the command may be interrupted or end by itself (``--seconds``). Caches of
Triton, Inductor and FlagGems stay in the work folder. ``compare`` runs the program in turns,
without an edit, under `solkit run`, and gives the ratio of its median steps with its 95 % interval,
and what was applied. ``kernels`` runs both sides under PyTorch's profiler and sums the GPU times of
the recorded kernels, and of those whose time is over 1.3 times the speed of light, matrix products
counted as the kernel makes them.
``--overhead`` times launches of a kernel that
nothing is applied to.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from record_programs import PROGRAMS

STEPS, WARM, PROFILED, RECORDED = 30, 5, 20, 3
GAP = 1.3
"""Kernels whose time is over so many times the speed of light are told apart."""
_STEP = r"step: ([\d.]+) ms"
BEGUN_S = time.monotonic()
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "FLAGGEMS_CACHE_DIR")


def run_steps(name: str) -> None:
    """Run a program; print the median time of its steps and what its first parameters sum to."""
    import torch

    step = PROGRAMS[name]()
    for _ in range(WARM):
        step()
    taken_ms = []
    for _ in range(STEPS):
        torch.cuda.synchronize()
        begun_s = time.perf_counter()
        step()
        torch.cuda.synchronize()
        taken_ms.append(1e3 * (time.perf_counter() - begun_s))
    print(f"step: {statistics.median(taken_ms):.6f} ms")


def profile_steps(name: str) -> None:
    """Run a program under the profiler; print the GPU ms a step of each kernel, as JSON."""
    import torch
    from torch.autograd import DeviceType

    step = PROGRAMS[name]()
    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(PROFILED):
            step()
        torch.cuda.synchronize()
    times_ms: dict[str, float] = {}
    for event in profiler.events():
        if event.device_type == DeviceType.CUDA:
            took_ms = event.time_range.elapsed_us() / 1e3 / PROFILED
            times_ms[event.name] = times_ms.get(event.name, 0.0) + took_ms
    print(f"kernels: {json.dumps(times_ms)}")


def record(name: str, folder: Path) -> None:
    """Record three steps of a program."""
    import solkit

    step = PROGRAMS[name]()
    with solkit.recording(folder):
        for _ in range(RECORDED):
            step()


def command_of(name: str, part: str = "step") -> list[str]:
    return [sys.executable, __file__, "--part", part, "--programs", name]


def run(command: list[str], limit_s: float = 170.0, **variables: str) -> tuple[str, str, float]:
    """Run a command; return its output, its errors and its wall time in s.

    One that takes longer than `limit_s` is ended, with the stacks of its threads in the error.

    Raises:
        RuntimeError: it failed, or took too long.
    """
    begun_s = time.monotonic()
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1", **variables}
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)
            errors = process.communicate()[1]
            tail = errors[-3000:]
            raise RuntimeError(f"{command[1:6]}: took over {limit_s:g} s: {tail}") from None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise RuntimeError(f"{command[1:6]}: exit code {process.returncode}: {errors[-800:]}")
    return out, errors, time.monotonic() - begun_s


class CutError(Exception):
    """The time is over: what is left is for the next start of this command."""


def in_turns(
    name: str, part: str, turns: int, folder: Path, options: argparse.Namespace
) -> dict[str, list[tuple[str, str]]]:
    """Run a part of a program with and without what was tuned, alternating.

    Returns:
        Outputs and errors, by side. Runs that an earlier start made are not made again.

    Raises:
        CutError: the time is over.
    """
    under = [sys.executable, "-m", "solkit", "run", "--apply", str(folder), "--"]
    file = folder.with_name(f"{name}.{part}.json")
    runs: dict[str, list[tuple[str, str]]] = {"without": [], "with": []}
    if file.exists():
        runs.update(json.loads(file.read_text()))
    for turn in range(turns):
        for side in ("without", "with") if turn % 2 else ("with", "without"):
            if len(runs[side]) > turn:
                continue
            if time.monotonic() - BEGUN_S > options.seconds:
                raise CutError
            command = [*(under if side == "with" else []), *command_of(name, part)]
            runs[side].append(run(command)[:2])
            file.write_text(json.dumps(runs))
    return runs


def stage_record(name: str, folder: Path, _: argparse.Namespace) -> dict[str, Any]:
    *_, wall_s = run([*command_of(name, "record"), "--work", str(folder.parent)])
    return {"wall_s": wall_s, "kernel_files": len(list(folder.glob("*.py")))}


def tuning_limit_s(gpu_s: float) -> float:
    """Return the wall seconds of a process that tunes: what it compiles takes time besides."""
    return 180.0 + 3 * gpu_s


def stage_tune(_: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "solkit", "batch", str(folder)]
    command += ["--gpu-minutes", str(options.gpu_minutes), "--json", str(folder / "batch.json")]
    *_, wall_s = run(command, tuning_limit_s(60 * options.gpu_minutes))
    entries = json.loads((folder / "tuned.json").read_text()).get("entries", [])
    return {"wall_s": wall_s, "entries": len(entries)}


def times_alone(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what the batch measured of each kernel in use, by its launched name."""
    from solkit.datasets.launch_recordings import kernels_of_recording, read_launch_recording

    kernels, _ = kernels_of_recording(read_launch_recording(folder))
    names = {kernel.path: kernel.launches[0].launch.name for kernel in kernels}
    rows: dict[str, dict[str, Any]] = {}
    batch = json.loads((folder / "batch.json").read_text())
    products = {path: product_ms(Path(path), batch["device"]) for path in names}
    for result in batch["results"]:
        name, sol, now = names.get(result["kernel"]), result["sol_ms"], result["default"]["time_ms"]
        if name and sol and now:
            sol = max(sol, products[result["kernel"]])
            row = rows.setdefault(name, {"alone_ms": 0.0, "sol_ms": 0.0, "l2": []})
            row["alone_ms"] += result["calls"] * now / RECORDED
            row["sol_ms"] += result["calls"] * sol / RECORDED
            row["l2"] += [result["l2"]]
    return rows


def product_ms(path: Path, device: str) -> float:
    """Return the least ms of a kernel's matrix products, which no configuration changes.

    The speed of light of a recorded launch is that of its arguments' bytes alone: it has no other
    reference. A product would seem ten times too slow.
    """
    if not re.search(r"\bdot\w*\(", path.read_text()):
        return 0.0
    out = path.with_suffix(".score.json")
    command = [sys.executable, "-m", "solkit", "score", str(path), "--device", device]
    run([*command, "--no-measure", "--json", str(out)], 60.0)
    score = json.loads(out.read_text())
    amounts = [launch["demand"]["operations"] for launch in score["results"][0]["launches"]]
    ceilings = score["device"]["ceilings"]
    pipes = [(pipe, number) for operations in amounts for pipe, number in operations.items()]
    return sum(1e3 * n / ceilings[pipe]["value"] for pipe, n in pipes if "tensor" in pipe)


def stage_kernels(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Profile it in turns with and without; compare the GPU times of what was recorded."""
    runs: dict[str, list[dict[str, float]]] = {}
    for side, ended in in_turns(name, "profile", options.profiles, folder, options).items():
        matches = [re.search(r"kernels: (.*)", out) for out, _ in ended]
        runs[side] = [json.loads(match[1]) for match in matches if match]
    rows = times_alone(folder)
    sums = dict.fromkeys((f"{w}_{side}_ms" for w in ("recorded", "wide") for side in runs), 0.0)
    for kernel, row in rows.items():
        row["gap"] = row["alone_ms"] / row["sol_ms"]
        for side, times in runs.items():
            row[f"{side}_ms"] = statistics.median(run.get(kernel, 0.0) for run in times)
            sums[f"recorded_{side}_ms"] += row[f"{side}_ms"]
            sums[f"wide_{side}_ms"] += row[f"{side}_ms"] if row["gap"] > GAP else 0.0
    sums["all_ms"] = statistics.median(sum(run.values()) for run in runs["without"])
    return {**sums, "kernels": rows}


def stage_compare(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run it in turns with and without, as a user would start it."""
    from solkit.measure.timing.comparison_statistics import compute_ratio

    runs = in_turns(name, "step", options.rounds, folder, options)
    times = {
        side: [float(match[1]) for out, _ in ended if (match := re.search(_STEP, out))]
        for side, ended in runs.items()
    }
    lines = [line for _, e in runs["with"] for line in e.splitlines() if line.startswith("solkit:")]
    summary = lines[-1] if lines else ""
    ratio = compute_ratio(times["without"], times["with"], "events")
    interval = {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
    return {**interval, "step_ms": times, "summary": summary}


def stage_verify(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    out = folder / "verified.json"
    command = [sys.executable, "-m", "solkit", "apply", str(folder), "--verify"]
    command += ["--time-from", _STEP, "--rounds", str(options.rounds), "--json", str(out), "--"]
    *_, wall_s = run([*command, *command_of(name)])
    return {"wall_s": wall_s, "groups": json.loads(out.read_text())["groups"]}


STAGES: dict[str, Callable[[str, Path, argparse.Namespace], dict[str, Any]]] = {
    "record": stage_record,
    "tune": stage_tune,
    "kernels": stage_kernels,
    "compare": stage_compare,
    "verify": stage_verify,
}


def overhead() -> dict[str, float]:
    """Return microseconds of the host for a launch: without, where nothing applies, and applied."""
    import tempfile

    import torch
    import triton
    from overhead_kernel import fill_kernel

    from solkit.adapters.launch_records import program_digest
    from solkit.core.tuned import LaunchBucket, TunedEntry, TunedFolder
    from solkit.datasets.tuned_folder import write_tuned_folder
    from solkit.integrations import applying
    from solkit.roofline import nvml

    out = torch.empty(1024, device="cuda")

    def launch_us() -> float:
        taken = []
        for _ in range(200):
            torch.cuda.synchronize()
            begun_s = time.perf_counter()
            for _ in range(100):
                fill_kernel[(8,)](out, 1024, BLOCK=128)
            taken.append(1e4 * (time.perf_counter() - begun_s))
        return statistics.median(taken)

    def use(kernel: str, warps: int) -> None:
        entry = TunedEntry(
            *(kernel, program_digest(fill_kernel), "jit", LaunchBucket(scalars={"n": 1024})),
            *({"num_warps": 4}, {"num_warps": warps}, None, True),
        )
        with tempfile.TemporaryDirectory() as folder:
            device = nvml.live_device(0).key
            write_tuned_folder(folder, TunedFolder(device, "", triton.__version__, (entry,)))
            applying.apply(folder)

    launch_us()
    result = {"without_us": launch_us()}
    use("another_kernel", 8)
    launch_us()
    result["nothing_applies_us"] = launch_us()
    use("fill_kernel", 8)
    launch_us()
    result["applied_us"] = launch_us()
    assert [choice.applied for choice in applying.applied()] == [True]
    applying.withdraw()
    result["withdrawn_us"] = launch_us()
    return result


def run_program(name: str, options: argparse.Namespace, results: dict[str, Any]) -> None:
    done = results.setdefault(name, {})
    folder = options.work / name
    for stage, function in STAGES.items():
        if stage in done or stage not in options.stages:
            continue
        if time.monotonic() - BEGUN_S > options.seconds:
            return
        try:
            done[stage] = function(name, folder, options)
        except CutError:
            print(f"{name}: {stage}: cut; the next start goes on", flush=True)
            return
        except Exception as error:  # the other programs go on
            print(f"{name}: {stage}: {type(error).__name__}: {error}", flush=True)
            return
        shown = {key: value for key, value in done[stage].items() if key != "step_ms"}
        print(f"{name}: {stage}: {json.dumps(shown)}", flush=True)
        save(options, results)


def save(options: argparse.Namespace, results: dict[str, Any]) -> None:
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path("applied"), help="for recordings")
    parser.add_argument("--json", type=Path, help="results; stages in it are not run again")
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--gpu-minutes", type=float, default=3.0, help="for each program")
    parser.add_argument("--rounds", type=int, default=6, help="runs of each side, at least 6")
    parser.add_argument("--profiles", type=int, default=3, help="profiled runs of each side")
    parser.add_argument("--seconds", type=float, default=460.0, help="begin no run after these")
    parser.add_argument("--stages", nargs="*", default=list(STAGES), choices=list(STAGES))
    parser.add_argument("--overhead", action="store_true", help="time launches, and nothing else")
    parser.add_argument("--part", choices=["record", "step", "profile"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part == "record":
        record(options.programs[0], options.work / options.programs[0])
        return 0
    if options.part in ("step", "profile"):
        (run_steps if options.part == "step" else profile_steps)(options.programs[0])
        return 0
    options.work.mkdir(parents=True, exist_ok=True)
    for variable in CACHES:
        os.environ.setdefault(variable, str(options.work.absolute() / variable.lower()))
    held = options.json and options.json.exists()
    results = json.loads(options.json.read_text()) if held else {}
    if options.overhead:
        results["overhead"] = overhead()
        print(json.dumps(results["overhead"]), flush=True)
        save(options, results)
        return 0
    for name in options.programs:
        run_program(name, options, results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
