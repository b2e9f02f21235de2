"""Triton's own autotuner over a kernel file's space, for as long as it may take.

    python bench/tune_autotune.py FILE "M=4096,N=4096" --seconds 20 --points points.json

It is run by `bench/tune.py`, in a process that sees one GPU. What Triton tunes is the launcher of
the file: for each point of the list, in order, `triton.runtime.Autotuner` compiles it and times it
with its own benchmarker. Points that come after the given seconds of this process are left out.
Prints a line of JSON for each: seconds since the start, time in ms (null: it failed), parameters.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

BEGUN_S = time.monotonic()

import triton  # noqa: E402 - the imports count
from triton.runtime.autotuner import Autotuner  # noqa: E402

from solkit.cli import parse_settings  # noqa: E402
from solkit.kernelfiles import load  # noqa: E402
from solkit.kernelfiles.seeding import seed_everything  # noqa: E402

KEYS = ("num_warps", "num_stages")


class Launched:
    """A file's launcher, called as Triton's autotuner calls a kernel."""

    arg_names = ()

    def __init__(self, loaded, workload, names):
        self.loaded, self.workload, self.names = loaded, workload, names

        def launcher():
            """Autotuners want a function."""

        self.fn = launcher

    def run(self, **kwargs):
        """Launch with the parameters of a configuration."""
        params = {name: kwargs[name] for name in self.names}
        self.loaded.with_params(self.workload, params).run_kernel()


class UntilSeconds(Autotuner):
    """Triton's autotuner, which counts what it has not tried in time as slow."""

    def until(self, seconds):
        """Try nothing after so many seconds of the process."""
        self.seconds = seconds
        return self

    def _bench(self, *args, config, **meta):
        if time.monotonic() - BEGUN_S > self.seconds:
            return [math.inf] * 3
        try:
            times_ms = super()._bench(*args, config=config, **meta)
        except Exception:  # a peer that stops at a bad configuration would say nothing
            times_ms = [math.inf] * 3
        time_ms = times_ms[0] if math.isfinite(times_ms[0]) else None
        results = time.monotonic() - BEGUN_S, time_ms, params_of(config, self.fn.names)
        print(json.dumps(results), flush=True)
        return times_ms


def params_of(config, names):
    """A configuration as a point of the space."""
    result = config.all_kwargs()
    return {name: result[name] for name in names}


def config_of(point):
    """A point as a configuration."""
    blocks = {name: value for name, value in point.items() if name not in KEYS}
    return triton.Config(blocks, **{name: point[name] for name in KEYS if name in point})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("path")
    parser.add_argument("shape")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--points", type=Path, required=True, help="JSON: the points, in order")
    options = parser.parse_args()
    points = json.loads(options.points.read_text())
    loaded = load(options.path, None)
    seed_everything(0)
    shape = parse_settings(options.shape, "--shape") if options.shape else {}
    workload = loaded.workload(shape, {}, "cuda")
    fn = Launched(loaded, workload, tuple(points[0]))
    configs = [config_of(point) for point in points]
    tuner = UntilSeconds(fn, fn.arg_names, configs, [], [], []).until(options.seconds)
    tuner.run()


if __name__ == "__main__":
    main()
