"""What analysing in bulk costs, and where the cores' time goes: zoo kernels from empty caches.

    python bench/analyser.py                           # 200 configurations on all cores
    python bench/analyser.py --count 40 --peer DIR     # also in an older checkout

A fixed seed draws configurations of the zoo's Triton kernels, spread over the families. Triton's
cache and SolKit's are empty folders. Time is CPU time: of ptxas and nvdisasm by
`getrusage(RUSAGE_CHILDREN)` around each run, of Triton's compiler and of following by
`process_time` around the call, and the rest from /proc. Idle is cores times wall time without it,
so it includes other programs: on a shared machine, read the share of what was used.

The peer analyses the same configurations in sequence, since its `solkit.analyse` held a lock for
the whole process.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from solkit.analysis.analyser import Analyser
from solkit.analysis.pool import usable_cores
from solkit.core import Configuration
from solkit.datasets.kernels import ZOO
from solkit.processes import jobs
from solkit.processes.forkserver import children_of

TOOLS = ("triton", "ptxas", "nvdisasm")
TARGET = 0.75
_TICKS_A_SECOND = 100.0  # proc(5): sysconf(_SC_CLK_TCK), 100 on Linux
_PEER = """
import json, sys, time, solkit
asked = json.load(open(sys.argv[1]))
solkit.analyse(asked[0][0], "h100", shape=asked[0][1], params=asked[0][2])  # starts its server
start = time.perf_counter()
for path, shape, params in asked[1:]:
    try:
        solkit.analyse(path, "h100", shape=shape, params=params)
    except solkit.SolkitError:
        pass
print((len(asked) - 1) / (time.perf_counter() - start))
"""


# ------------------------------------------------------------------------------- in workers


def prepare() -> None:
    """Prepare the server as usual, and time what its forks do."""
    from solkit.adapters import triton_compiler
    from solkit.analysis import candidate, facts, worker

    worker.warm_up()
    triton_compiler.compile_kernel = _timed("triton", triton_compiler.compile_kernel)
    triton_compiler.machine_code = _timed("reading machine code", triton_compiler.machine_code)
    facts.requests_of = _timed("following", facts.requests_of)
    candidate.capture = _timed("capturing", candidate.capture)
    subprocess.run = _timed_child(subprocess.run)


def _timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args, **kwargs)
        finally:
            _note(name, time.process_time() - start)

    return timed


def _timed_child(run: Callable[..., Any]) -> Callable[..., Any]:
    def timed(command: Sequence[str], *args: Any, **kwargs: Any) -> Any:
        start = _cpu_s(resource.RUSAGE_CHILDREN)
        try:
            return run(command, *args, **kwargs)
        finally:
            _note(Path(command[0]).name.partition("-")[0], _cpu_s(resource.RUSAGE_CHILDREN) - start)

    return timed


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def _note(name: str, seconds: float) -> None:
    with Path(os.environ["SOLKIT_BENCH_NOTES"]).open("a") as notes:
        notes.write(f"{name} {seconds}\n")


# ------------------------------------------------------------------------------ in the parent


def chosen(count: int, seed: int = 0) -> list[Configuration]:
    """Configurations of as many kernels as possible, a few each."""
    files = sorted(path for path in ZOO.glob("*/*.py") if not is_left_out(path))
    random.Random(seed).shuffle(files)
    item = max(4, -(-count // len(files)))
    results: list[Configuration] = []
    with Analyser("h100") as analyser:
        for path in files:
            if len(results) >= count:
                break
            file = analyser.describe(str(path)).result()
            assert file.candidate is not None
            drawn = file.candidate.space.sample(min(item, file.candidate.space.size), seed)
            shape = file.problem.shapes[0]
            results += [Configuration(str(path), "kernel", shape, params) for params in drawn]
    return results[:count]


def is_left_out(path: Path) -> bool:
    return path.name in ("problem.py", "__init__.py") or path.name.startswith("cuda_")


def measured(configurations: Sequence[Configuration], workers: int) -> dict[str, Any]:
    """Analyse all from empty caches: seconds by activity, and how many failed."""
    with tempfile.TemporaryDirectory() as folder, environment(folder) as notes:
        pool = jobs._shared = jobs.Jobs("analyser:prepare")
        with Analyser("h100", cache=False, workers=workers) as analyser:
            analyser.describe(configurations[0].path).result()  # the server is there from now on
            before, start = family_s(), time.perf_counter()
            analysis = list(analyser.analysed(configurations))
            wall_s, used_s = time.perf_counter() - start, family_s() - before
        pool.close()
        spent: Counter[str] = Counter()
        for line in notes.read_text().splitlines():
            name, _, seconds = line.rpartition(" ")
            spent[name] += float(seconds)
    spent["other"] = used_s - spent.total()
    failed = sum(item.error is not None for item in analysis)
    return {"wall_s": wall_s, "used_s": used_s, "spent_s": spent, "failed": failed}


@contextlib.contextmanager
def environment(folder: str) -> Iterator[Path]:
    notes = Path(folder) / "notes"
    notes.touch()
    here = str(Path(__file__).parent)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    added = {
        "PYTHONPATH": path,
        "SOLKIT_BENCH_NOTES": str(notes),
        "TRITON_CACHE_DIR": str(Path(folder) / "triton"),
    }
    before = dict(os.environ)
    os.environ.update(added)
    try:
        yield notes
    finally:
        os.environ.clear()
        os.environ.update(before)


def family_s() -> float:
    """CPU time of this process, of those below it, and of those that they reaped."""
    ticks = 0
    for pid in _family():
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, stat[11:15]))  # proc(5): utime, stime, cutime, cstime
    return ticks / _TICKS_A_SECOND


def _family(pid: int | str = "self") -> Iterator[int | str]:
    yield pid
    for child in children_of(pid):
        yield from _family(child)


def show(result: dict[str, Any], count: int, workers: int) -> float:
    """Print a measurement; returns the tools' share of the cores' time."""
    cores_s = workers * result["wall_s"]
    rate, failed = count / result["wall_s"], result["failed"]
    print(f"{count} configurations ({failed} failed) on {workers} cores: {rate:.2f} a second")
    shares = {**result["spent_s"], "idle": cores_s - result["used_s"]}
    for name, seconds in sorted(shares.items(), key=lambda item: -item[1]):
        per = 1e3 * seconds / count
        print(f"  {name:22} {seconds / cores_s:6.1%} of the cores' time, {per:7.1f} ms each")
    tools_s = sum(result["spent_s"][name] for name in TOOLS)
    print(f"Triton, ptxas and nvdisasm: {tools_s / cores_s:.1%} of the cores' time, ", end="")
    print(f"{tools_s / result['used_s']:.1%} of what was used")
    return float(tools_s / cores_s)


def peer_rate(configurations: Sequence[Configuration], checkout: str) -> float:
    """Configurations a second of `solkit.analyse` in another checkout, from an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "asked.json"
        root, other = str(ZOO.parents[2]), str(Path(checkout).resolve())
        pairs = [
            (configuration.path.replace(root, other), configuration.shape, configuration.params)
            for configuration in configurations
        ]
        result.write_text(json.dumps(pairs))
        env = {**os.environ, "PYTHONPATH": other, "TRITON_CACHE_DIR": f"{folder}/triton"}
        command = [sys.executable, "-c", _PEER, str(result)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="configurations")
    parser.add_argument("--workers", type=int, default=usable_cores(), help="default: the cores")
    parser.add_argument("--peer", metavar="DIR", help="a checkout from before the analyser")
    options = parser.parse_args()
    requests = chosen(options.count)
    share = show(measured(requests, options.workers), len(requests), options.workers)
    if options.peer:
        print(f"the peer: {peer_rate(requests, options.peer):.2f} a second")
    return 0 if share >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
