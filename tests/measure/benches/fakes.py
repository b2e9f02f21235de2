"""A trusted bench with no GPU: what compiles and what times are fake, the log is real."""

from __future__ import annotations

import contextlib
import itertools
from concurrent.futures import Future
from dataclasses import replace

from served import ENVIRONMENT

from solkit.core import Facts, Launch, LiveLaunch, Verdict
from solkit.datasets.facts import facts_to_json
from solkit.errors import WorkerError
from solkit.measure.benches.trusted import bench as trusted
from solkit.measure.benches.trusted.precompile import Compiled
from solkit.measure.benches.trusted.process import LostError
from solkit.roofline import devices

DEVICE = replace(devices.find("h100-sxm"), uuid="GPU-0")
SPACE = {"BLOCK": [2**n for n in range(4, 14)], "num_warps": [1, 2, 4, 8], "SPLIT": [1, 2, 4]}
VALID = [dict(zip(SPACE, values)) for values in itertools.product(*SPACE.values())]
SHAPES = ({"N": 100}, {"N": 200})
BOUND = {
    "bound_ms": 0.5,
    "hard_bound_ms": 0.4,
    "limiter": "dram",
    "precision": "bf16",
    "operations": {"fp32": 7},
    "read_bytes": 8,
    "write_bytes": 9,
}
FACTS = Facts(Launch("k", (4, 1, 1), 4, 2), registers=32, spills=0, shared_bytes=1024)
LAUNCH = LiveLaunch("k", (4, 1, 1), 4, 2, 1, registers=32, spills=0, shared_bytes=1024)


def done(value):
    """A future that has a value, or an error."""
    future = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


class FakeAhead:
    """Knows everything at once; SPLIT 4 does not compile."""

    device, workers, environment = DEVICE, 1, {}

    def __init__(self):
        self.valid, self.error, self.bounded = VALID, None, BOUND

    def space(self, kernel):
        shapes = [{"shape": s, "default": VALID[5], "valid": self.valid} for s in SHAPES]
        fails = self.error and kernel.name.endswith("b")
        return done(WorkerError(self.error) if fails else shapes)

    def bound(self, _path, _reference, shape):
        return done({"shape": shape, **self.bounded})

    def compiled(self, _kernel, _reference, _shape, choices):
        errors = ["too big" if c["SPLIT"] == 4 else "" for c in choices]
        return done(
            [Compiled(0.25, error, "" if error else facts_to_json([FACTS])) for error in errors]
        )


class FakeProcess:
    """Takes |BLOCK - 256| + num_warps ms; SPLIT 2 is wrong, but ends the process with BLOCK 16."""

    def __init__(self):
        self.handfuls, self.done = [], []

    def load(self):
        self.done.append("load")

    def start(self):
        self.done.append("start")
        return ENVIRONMENT

    def load_file(self, path, reference):
        self.done.append(("load_file", path, reference))

    def close(self):
        self.done.append("close")

    def outcomes(self, handful):
        self.handfuls.append(handful)
        for number, draft in enumerate(handful.drafts):
            if draft.params["SPLIT"] == 2 and draft.params["BLOCK"] == 16:
                killed = replace(draft, verdict=Verdict.TIMED_OUT, message="killed")
                raise LostError(number, killed)
        return [self.one(draft) for draft in handful.drafts]

    def one(self, draft):
        if draft.params["SPLIT"] == 2:
            message = "8 of 8 elements"
            return replace(draft, verdict=Verdict.WRONG, message=message, max_error=2.0)
        time_ms = float(abs(draft.params["BLOCK"] - 256) + draft.params["num_warps"])
        return replace(
            draft,
            verdict=Verdict.CORRECT,
            dtypes=("bfloat16", "bfloat16"),
            live_launches=(LAUNCH,),
            samples_ms=(time_ms,) * 9,
            time_ms=time_ms,
            clock_mhz=1980.0,
        )


def fake(monkeypatch):
    """Have trusted benches time by a fake process; gives it and what compiles ahead of it."""
    ahead, process = FakeAhead(), FakeProcess()
    monkeypatch.setattr(trusted, "TimingProcess", lambda *_: process)
    monkeypatch.setattr(trusted, "exclusive_gpu", lambda *_: contextlib.nullcontext())
    return ahead, process
