"""Tables whose times follow a known law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solkit.surrogate.table import Table


def table(rows=400, families=8, seed=0, noise=0.05, devices=("h100-sxm",)):
    """Times are the modelled ones times 2 ** (a step in one feature), and noise.

    Each family has two problems; each problem two kernels.
    """
    random = np.random.default_rng(seed)
    place = np.arange(rows)
    family = place % families
    problem = 2 * family + place // families % 2
    kernel = 2 * family + place // families // 2 % 2
    values = random.normal(size=(rows, 3)).astype(np.float32)
    modelled = 2.0 ** random.normal(size=rows) * 0.01
    truth = np.where(values[:, 0] > 0, 1.0, 0.0) + noise * random.normal(size=rows)
    repeats = np.where(place % 10 == 0, 0.01 * random.normal(size=rows), np.nan)
    about = {
        "kernel_id": np.char.add("kernel", kernel.astype(str)),
        "problem_id": np.char.add("problem", problem.astype(str)),
        "params": place.astype(str),
        "device": np.array(devices)[place // 2 % len(devices)],
        "family": np.char.add("family", family.astype(str)),
        "kind": np.char.add("kind", (family % 4).astype(str)),
        "origin": np.full(rows, "zoo"),
        "implementation": np.full(rows, "x"),
        "triton_version": np.full(rows, "3.6.0"),
    }
    names = ("model.a", "machine.b", "requests.c")
    return Table(names, values, modelled * 2.0**truth, modelled, modelled / 2, about, repeats)


def on_both(made, ratio=0.8, noise=0.0):
    """An H100's configurations, and again on an H200, where each takes `ratio` as long."""
    random = np.random.default_rng(1)
    number = len(made)
    there = ratio * made.time_ms * 2.0 ** (noise * random.normal(size=number))
    twice = made[np.concatenate([np.arange(number)] * 2)]
    devices = np.repeat(["h100-sxm", "h200"], number)
    return replace(
        twice,
        time_ms=np.concatenate([made.time_ms, there]),
        about={**twice.about, "device": devices},
    )
