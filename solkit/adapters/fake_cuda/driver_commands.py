"""The vendors' commands, which libraries run to learn whose GPU there is.

FlagGems, for one, asks no library: it runs ``nvidia-smi`` and ``rocm-smi``, and takes the vendor
whose command ends well. Here the target's vendor answers, with the GPU's name. The others' commands
are missing, as on a machine of that vendor: a shell that is asked for one ends with 127.

`triton.testing.nvsmi`, and autotuners that prune by a clock, ask for fields by ``--query-gpu``. The
answer is that of ``nvidia-smi`` in its CSV, with ``[N/A]`` where the device does not say
(``nvidia-smi --help-query-gpu``).
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from solkit.core import Device

_START = subprocess.Popen.__init__
_COMMANDS = {"NVIDIA": ("nvidia-smi",), "AMD": ("rocm-smi", "amd-smi", "rocminfo")}
_LACKING = "import sys; print(sys.argv[1], file=sys.stderr); sys.exit(127)"


DRIVER_VERSION = "580.65.06"
"""The oldest driver of CUDA 13.0 (its release notes, table 3), which `torch.version` names."""
_WHEN = ("max.", "current.", "")
_SM_CLOCKS = [f"clocks.{when}{of}" for when in _WHEN for of in ("sm", "graphics", "gr")]
_MEMORY_CLOCKS = [f"clocks.{when}{of}" for when in _WHEN for of in ("memory", "mem")]
_FIELDS = re.compile(r"""--query-gpu[= ]['"]?([\w.]+(?:, *[\w.]+)*)""")


def fake_driver_commands(device: Device) -> None:
    """Let the vendors' commands answer as on a machine with a device."""
    vendors = {name: vendor for vendor, names in _COMMANDS.items() for name in names}

    def started(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        name = _command(args)
        vendor = vendors.get(name)
        if vendor == device.vendor:
            options.pop("shell", None)
            args = [sys.executable, "-c", f"print({_answer(device, args)!r})"]
        elif vendor is not None and options.pop("shell", False):
            lacking = f"{name}: command not found: the target is a GPU of {device.vendor}"
            args = [sys.executable, "-c", _LACKING, lacking]
        elif vendor is not None:
            why = f"{os.strerror(errno.ENOENT)} (the target is a GPU of {device.vendor})"
            raise FileNotFoundError(errno.ENOENT, why, name)
        _START(self, args, *rest, **options)

    subprocess.Popen.__init__ = started  # type: ignore[method-assign]


def _answer(device: Device, args: Any) -> str:
    """Return what the vendor's command prints; without a query the name, as ``-L`` does."""
    line = args if isinstance(args, str) else " ".join(map(str, args))
    query = _FIELDS.search(line)
    if device.vendor != "NVIDIA" or query is None:
        return f"GPU 0: {device.name}"
    fields = [field.strip() for field in query.group(1).split(",")]
    values = _figures(device)
    answers = [values.get(field, ("[N/A]", "")) for field in fields]
    bare = "nounits" in line
    row = ", ".join(value if bare or not unit else f"{value} {unit}" for value, unit in answers)
    if "noheader" in line:
        return row
    units = [unit for _, unit in answers]
    titles = (f if bare or not u else f"{f} [{u}]" for f, u in zip(fields, units, strict=True))
    return f"{', '.join(titles)}\n{row}"


def _figures(device: Device) -> dict[str, tuple[str, str]]:
    """Return the fields that a device answers, each with its unit."""
    memory, dram = str(device.memory_bytes >> 20), device.ceilings.get("dram")
    clock = str(round(device.clock_mhz))
    memory_clock = str(round(dram.clock_mhz)) if dram and dram.clock_mhz else ""
    return {
        **dict.fromkeys(("name", "gpu_name"), (device.name, "")),
        "index": ("0", ""),
        "count": ("1", ""),
        "compute_cap": (".".join(map(str, device.compute_capability)), ""),
        "driver_version": (DRIVER_VERSION, ""),
        **dict.fromkeys(("memory.total", "memory.free"), (memory, "MiB")),
        "memory.used": ("0", "MiB"),
        **dict.fromkeys(_SM_CLOCKS, (clock, "MHz")),
        **(dict.fromkeys(_MEMORY_CLOCKS, (memory_clock, "MHz")) if memory_clock else {}),
    }


def _command(args: Any) -> str:
    """Return the name of a process's program; empty if that cannot be told."""
    if isinstance(args, str):
        try:
            args = shlex.split(args)
        except ValueError:
            return ""
    first = args[0] if isinstance(args, Sequence) and args else ""
    return PurePath(first).name if isinstance(first, str) else ""
