"""What a candidate costs in a warm session, and what a thousand of them leave behind.

Each candidate is a file of its own that doubles a small vector; one in ten is wrong, one in fifty
raises, one in a hundred ends its process. What the right ones cost beyond their import, their
calls and the samples is told as a median, by the wall clock and (which a loaded machine disturbs
less) in CPU time of all processes. Memory, descriptors, threads, processes and temporary files are
counted early, when all is warm, after every hundred, and at the end.

    python bench/thousand.py                      # on the GPU where there is one, else on the CPU
    python bench/thousand.py --candidates 200 --device cpu --json thousand.json
    python bench/thousand.py --protocol replay    # takes samples in half the time
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from solkit.core import MeasureSettings, Verdict
from solkit.errors import UnsupportedError
from solkit.measure import Session, is_available
from solkit.measure.guarded import session as sessions
from solkit.measure.timing.protocols import PROTOCOLS
from solkit.processes.forkserver import children_of

TARGET_S = 0.25
PROBLEM = """
import torch

def inputs(N=4096, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2
"""
KERNELS = {
    "right": "return x + x",
    "wrong": "return x + x + 1",
    "raising": "raise ValueError(x.shape)",
    "dying": "os.abort()",
}
_EARLY, _EVERY = 50, 100
_SAMPLING = ("timing", "reading a timer", "starting a timer")
_TICKS_A_SECOND = 100.0  # proc(5): sysconf(_SC_CLK_TCK), 100 on Linux


class Stages(logging.Handler):
    """Seconds in each stage of a measurement, as the session tells them."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.taken_s: Counter[str] = Counter()
        self._stage, self._since = "", 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """A new stage begins."""
        self.end()
        self._stage = record.getMessage()

    def end(self) -> None:
        """The stage is over."""
        now = time.perf_counter()
        self.taken_s[self._stage] += now - self._since
        self._stage, self._since = "", now

    def begin(self) -> None:
        """Another measurement begins."""
        self.taken_s.clear()
        self._since = time.perf_counter()

    @property
    def sampling_s(self) -> float:
        """Of the stages that take samples."""
        return sum(s for stage, s in self.taken_s.items() if stage.startswith(_SAMPLING))


def kind_of(number: int) -> str:
    if number % 100 == 99:
        return "dying"
    if number % 50 == 49:
        return "raising"
    return "wrong" if number % 10 == 5 else "right"


def family(pid: int | str = "self") -> Iterator[int | str]:
    yield pid
    for child in children_of(pid):
        yield from family(child)


def cpu_s() -> float:
    """CPU time of this process and of those below it, and of those that they reaped."""
    ticks = 0
    for pid in family():
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, stat[11:15]))  # proc(5): utime, stime, cutime, cstime
    return ticks / _TICKS_A_SECOND


def held() -> dict[str, float]:
    """What this process and those below it hold."""
    pids = list(family())
    own = {f"private_mib of process {number}": private_mib(pid) for number, pid in enumerate(pids)}
    results = {
        "private_mib": sum(own.values()),
        **own,
        **descriptors(pids),
        "threads": sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids),
        "processes": len(pids),
        "temporary_files": len(list(Path(tempfile.gettempdir()).glob("solkit-*"))),
    }
    if is_available():
        results["gpu_mib"] = gpu_mib()
    return results


def private_mib(pid: int | str) -> float:
    """Memory of a process that it shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) / 1024


def descriptors(pids: Sequence[int | str]) -> dict[str, int]:
    """How many these processes have, and of each kind of file."""
    files = [file for pid in pids for file in Path(f"/proc/{pid}/fd").iterdir()]
    kinds: Counter[str] = Counter()
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # that of looking
            kinds[f"descriptors of {str(file.readlink()).partition(':[')[0]}"] += 1
    return {"descriptors": len(files), **kinds}


def gpu_mib() -> float:
    import pynvml

    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return float(pynvml.nvmlDeviceGetMemoryInfo(handle).used) / 2**20
    finally:
        pynvml.nvmlShutdown()  # its descriptors would be counted next time


def measure(session: Session, path: Path, problem: Path, protocol: str) -> Verdict:
    try:
        outcome = session.measure(
            str(path), {}, {}, reference=str(problem), settings=MeasureSettings(protocol=protocol)
        )
        return outcome.verdict
    except UnsupportedError:  # a CPU's time is never passed off as a GPU's: it was right
        return Verdict.CORRECT


def written(folder: Path, number: int, kind: str) -> Path:
    path = folder / f"candidate{number}.py"
    path.write_text(f"import os\n\ndef kernel(x):\n    {KERNELS[kind]}\n")
    return path


def level(session: Session, folder: Path, problem: Path, protocol: str) -> dict[str, float]:
    """What is held when all processes are there."""
    measure(session, written(folder, -1, "right"), problem, protocol)
    return held()


def run(
    count: int,
    device: str,
    folder: Path,
    seconds: float = float("inf"),
    protocol: str = "cold",
) -> dict[str, object]:
    """Measure that many candidates, or as many as the seconds allow; what they cost and left."""
    problem = folder / "problem.py"
    problem.write_text(PROBLEM)
    stages = Stages()
    sessions._log.addHandler(stages)
    sessions._log.setLevel(logging.DEBUG)
    sessions._log.propagate = False
    verdicts: Counter[str] = Counter()
    beyond_s, used_s = [], []
    levels: dict[int, dict[str, float]] = {}
    first = min(_EARLY, count // 2)
    by_stage: dict[str, list[float]] = {}
    began = time.monotonic()
    with Session(device=device) as session:
        for number in range(count):
            if time.monotonic() - began > seconds:
                break
            kind = kind_of(number)
            path = written(folder, number, kind)
            if number >= first and (number - first) % _EVERY == 0:
                levels[number] = level(session, folder, problem, protocol)
            cpu_before, start = cpu_s(), time.perf_counter()
            stages.begin()
            verdict = measure(session, path, problem, protocol)
            stages.end()
            verdicts[f"{kind}: {verdict.value}"] += 1
            if kind == "right" and kind_of(number - 1) == "right" and number > 1:  # it is warm
                beyond_s.append(time.perf_counter() - start - stages.sampling_s)
                used_s.append(cpu_s() - cpu_before)
                for stage, taken_s in stages.taken_s.items():
                    by_stage.setdefault(stage or "asking", []).append(taken_s)
            path.unlink()
        late = level(session, folder, problem, protocol)
    early = next(iter(levels.values()), late)  # fewer may have been measured
    return {
        "candidates": sum(verdicts.values()),
        "device": device,
        "protocol": protocol,
        "verdicts": dict(verdicts),
        "beyond_samples_s": statistics.median(beyond_s),
        "beyond_samples_90th_percentile_s": sorted(beyond_s)[int(0.9 * len(beyond_s))],
        "cpu_s": statistics.mean(used_s),
        "target_s": TARGET_S,
        "stages_s": {stage: statistics.median(taken) for stage, taken in by_stage.items()},
        "early": early,
        "levels": levels,
        "late": late,
        "growth": {name: late.get(name, 0) - early.get(name, 0) for name in early | late},
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--candidates", type=int, default=1000)
    options.add_argument("--seconds", type=float, default=float("inf"), help="begin none after it")
    options.add_argument("--device", choices=("cpu", "cuda"))
    options.add_argument("--protocol", choices=list(PROTOCOLS), default="cold")
    options.add_argument("--json", type=Path, help="write the figures there too")
    chosen = options.parse_args()
    device = chosen.device or ("cuda" if is_available() else "cpu")
    with tempfile.TemporaryDirectory(prefix="thousand-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder  # no others' files are counted
        result = run(chosen.candidates, device, Path(folder), chosen.seconds, chosen.protocol)
    text = json.dumps(result, indent=2)
    if chosen.json:
        chosen.json.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
