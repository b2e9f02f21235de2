"""The vendors' commands, which libraries run to learn whose GPU there is.

FlagGems, for one, asks no library: it runs ``nvidia-smi`` and ``rocm-smi``, and takes the vendor
whose command ends well. Here the target's vendor answers, with the GPU's name. The others' commands
are missing, as on a machine of that vendor: a shell that is asked for one ends with 127.
"""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from solkit.core import Device

__all__ = ["fake_driver_commands"]

_START = subprocess.Popen.__init__
_COMMANDS = {"NVIDIA": ("nvidia-smi",), "AMD": ("rocm-smi", "amd-smi", "rocminfo")}
_LACKING = "import sys; print(sys.argv[1], file=sys.stderr); sys.exit(127)"


def fake_driver_commands(device: Device) -> None:
    """Let the vendors' commands answer as on a machine with a device."""
    vendors = {name: vendor for vendor, names in _COMMANDS.items() for name in names}

    def started(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        name = _command(args)
        vendor = vendors.get(name)
        if vendor == device.vendor:
            options.pop("shell", None)
            args = [sys.executable, "-c", f"print({f'GPU 0: {device.name}'!r})"]
        elif vendor is not None and options.pop("shell", False):
            lacking = f"{name}: command not found: the target is a GPU of {device.vendor}"
            args = [sys.executable, "-c", _LACKING, lacking]
        elif vendor is not None:
            why = f"{os.strerror(errno.ENOENT)} (the target is a GPU of {device.vendor})"
            raise FileNotFoundError(errno.ENOENT, why, name)
        _START(self, args, *rest, **options)

    subprocess.Popen.__init__ = started  # type: ignore[method-assign]


def _command(args: Any) -> str:
    """Return the name of a process's program; empty if that cannot be told."""
    if isinstance(args, str):
        try:
            args = shlex.split(args)
        except ValueError:
            return ""
    first = args[0] if isinstance(args, Sequence) and args else ""
    return PurePath(first).name if isinstance(first, str) else ""
