"""Is `solkit evolve` faster than torch.compile, from references of KernelBench alone? On a GPU.

    python bench/evolve_references.py KERNELBENCH --out found [--problems 20] [--seed 0]
                                      [--levels 1 2] [--gpu-seconds 30] [--minutes 20] [--part 1/2]

Problems are drawn by seed among those whose Triton kernels take at least 30 % of what torch.compile
(default mode) runs on the GPU; a child process finds the shares, of some problems at a time. Each
is searched; at the gate the winner meets torch.compile itself, in the same precision. What does not
hold there leaves torch.compile's own code. The summary gives the geometric mean of the speed-ups:
of all, and of those whose Triton kernels are far from the speed of light. The folder keeps a file
for each problem: the command goes on there. Parts can be searched on several GPUs; with all files
in one folder, the command then sums up.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelbench_suite import Problem, find_problems
from tune import part

import solkit
from solkit.core import EvolveSettings, TuneVerdict
from solkit.errors import SolkitError
from solkit.pipeline.compiling import first_parent
from solkit.pipeline.evolving import EvolveParts
from solkit.report import evolution
from solkit.report.advice import advise

LEAST_SHARE = 0.3
FAR_FROM_SOL = 1.5
_SHARE, _SHARE_LIMIT_S = "share of Triton:", 180.0
_AHEAD = 6
"""Problems whose shares are known before the first of them is searched."""


def share_of(path: str) -> float:
    """The share of the GPU time of torch.compile's program that Triton's kernels take.

    Args:
        path: of a KernelBench problem. It runs in this process.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.backends.cudnn.allow_tf32 = False  # as in what is timed
    space: dict[str, Any] = {}
    exec(compile(Path(path).read_text(encoding="utf-8"), path, "exec"), space)
    torch.manual_seed(0)
    model = torch.compile(space["Model"](*space["get_init_inputs"]()).cuda())
    inputs = [item.cuda() if hasattr(item, "cuda") else item for item in space["get_inputs"]()]
    with torch.no_grad():
        for _ in range(3):
            model(*inputs)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as result:
            for _ in range(3):
                model(*inputs)
            torch.cuda.synchronize()
    times = {item.key: item.self_device_time_total for item in result.key_averages()}
    whole = sum(times.values())
    return sum(us for name, us in times.items() if name.startswith("triton_")) / whole


def serve_shares() -> None:
    """Answer each path on a line with the share on a line, or with ``failed``."""
    import torch

    for path in map(str.strip, sys.stdin):
        try:
            text = str(share_of(path))
        except Exception as error:  # a problem may raise anything; a broken context ends this
            print(f"{path}: {error}", file=sys.stderr)
            text = "failed"
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        print(f"\n{_SHARE} {text}", flush=True)


class Shares:
    """Finds shares in a process that loads torch once. It is replaced if it ends, or hangs."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None

    def of(self, problem: Problem) -> float | None:
        """See `share_of`; ``None`` if it fails."""
        if self._child is None:
            options = [sys.executable, __file__, "--serve-shares"]
            pipe = subprocess.PIPE
            self._child = subprocess.Popen(options, stdin=pipe, stdout=pipe, text=True)
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        late = threading.Timer(_SHARE_LIMIT_S, child.kill)
        late.start()
        try:
            print(problem.path, file=child.stdin, flush=True)
            selected = next(item for item in child.stdout if item.startswith(_SHARE))
            return float(selected.split()[-1])
        except ValueError:  # the problem failed there
            return None
        except (OSError, StopIteration):  # the process ends, which may take a while on a GPU
            self.close()
            return None
        finally:
            late.cancel()

    def close(self) -> None:
        """End the process: nobody else may be on the GPU while something is timed."""
        if self._child is not None:
            self._child.kill()
            with contextlib.suppress(OSError):  # what it did not read is lost
                self._child.communicate()
            self._child.wait()
            self._child = None


def searched(problem: Problem, share: float, gpu_seconds: float, folder: Path) -> dict[str, Any]:
    """Search one problem; at the gate the winner meets torch.compile."""
    fields: dict[str, Any] = {"problem": problem.label, "share": share}
    try:
        parts = EvolveParts(
            advise=advise, show=lambda result: print(evolution.status_line(result), file=sys.stderr)
        )
        how = EvolveSettings(seed=0)
        results = solkit.evolve(problem.path, gpu_seconds=gpu_seconds, settings=how, parts=parts)
    except SolkitError as error:
        return fields | {"error": str(error)}
    (folder / f"{problem.name}.evolve.json").write_text(evolution.dumps(results))
    if results.original.time_ms is None:
        return fields | {"error": f"torch.compile's code was not timed: {results.original.message}"}
    fields |= {
        "sol_ms": results.sol_ms,
        "original_ms": results.original.time_ms,
        "verdict": results.verdict.value,
        "kind": results.winner.variant.kind,
        "measured": results.measured,
        "gpu_s": results.gpu_s,
        "speed_up": 1.0,
    }
    with contextlib.suppress(SolkitError):
        fields["part_sol_ms"] = part_sol_ms(problem, results.device)
    ratio = None if results.gate is None else results.gate.ratio
    if ratio is not None:  # of what was found to torch.compile's own run
        passed = results.verdict is TuneVerdict.FASTER
        fields |= {
            "speed_up": 1 / ratio.value if passed else 1.0,  # else its own code is the result
            "at_the_gate": 1 / ratio.value,
            "at_the_gate_low": 1 / ratio.high,
            "at_the_gate_high": 1 / ratio.low,
        }
    return fields


def kept(problem: Problem, folder: Path) -> Path:
    """Where what is known of a problem is kept."""
    return folder / f"{problem.name}.json"


def with_shares(
    drawn: Iterator[Problem], count: int, folder: Path
) -> list[tuple[Problem, dict[str, Any]]]:
    """The next problems with large shares, and what is known of each."""
    results, shares = [], Shares()
    try:
        for problem in drawn:
            path = kept(problem, folder)
            if not path.exists():
                fields = {"problem": problem.label, "share": shares.of(problem)}
                path.write_text(json.dumps(fields, indent=1))
            fields = json.loads(path.read_text())
            if fields["share"] is not None and fields["share"] >= LEAST_SHARE:
                results.append((problem, fields))
            if len(results) == count:
                break
    finally:
        shares.close()
    return results


def part_sol_ms(problem: Problem, device: str) -> float:
    """What Triton's kernels of a problem take if each byte moves once, at DRAM's ceiling.

    Without a GPU, from the kernels that Inductor writes: an array that a launch both reads and
    writes counts twice.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{problem.name}.py")
        path.write_text(first_parent(problem.path, device).text)
        report = solkit.score(path, reference=problem.path, device=device, measure=False)
    moved: dict[tuple[int, str, str], int] = {}
    for number, kernel in enumerate(report.results[0].analysis.kernels):
        if kernel.facts.requests is not None:
            for access in kernel.facts.requests.accesses:
                key = number, access.argument, access.kind
                moved[key] = max(moved.get(key, 0), access.unique_bytes)
    return 1e3 * sum(moved.values()) / report.device.ceilings["dram"].value


def mean_of(speed_ups: Sequence[float]) -> str:
    if not speed_ups:
        return "none"
    mean = math.exp(sum(map(math.log, speed_ups)) / len(speed_ups))
    return f"{mean:.3f} ({len(speed_ups)})"


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    done = [row for row in rows if "error" not in row]
    far = [
        item["speed_up"]
        for item in done
        if item["share"] * item["original_ms"] > FAR_FROM_SOL * item.get("part_sol_ms", math.inf)
    ]
    own = [item["problem"] for item in done if item.get("at_the_gate_high", 1.0) < 1.0]
    all_of = mean_of([item["speed_up"] for item in done])
    return [
        f"geometric mean of the speed-ups over torch.compile: {all_of}",
        f"where the gap of Triton's part was over {FAR_FROM_SOL}: {mean_of(far)}",
        f"slower, so torch.compile's own code stays: {', '.join(own) or 'none'}",
        f"failed: {len(rows) - len(done)}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", nargs="?", type=Path, help="KernelBench")
    parser.add_argument("--out", type=Path, help="a folder for the results")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gpu-seconds", type=float, default=30.0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin nothing after these")
    parser.add_argument("--part", type=part, default=(0, 1), metavar="I/N", help="of the problems")
    parser.add_argument("--serve-shares", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_shares:
        serve_shares()
        return 0
    if options.checkout is None or options.out is None:
        parser.error("name KernelBench's folder, and one for the results with --out")
    options.out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + 60 * options.minutes
    problems = find_problems(options.checkout, options.levels)
    random.Random(options.seed).shuffle(problems)
    drawn = iter(problems[options.part[0] :: options.part[1]])
    rows: list[dict[str, Any]] = []
    while len(rows) < options.problems and time.monotonic() < ends:
        chosen = with_shares(drawn, min(_AHEAD, options.problems - len(rows)), options.out)
        if not chosen:
            break
        for problem, result in chosen:
            if "verdict" not in result and "error" not in result and time.monotonic() < ends:
                result = searched(problem, result["share"], options.gpu_seconds, options.out)
                kept(problem, options.out).write_text(json.dumps(result, indent=1))
            if "verdict" in result or "error" in result:
                rows.append(result)
                print(json.dumps(result), flush=True)
    print("\n".join(summary(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
