"""The caller's side of a calibration, without torch."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import solkit.errors
from solkit.core import Device
from solkit.core.codec import from_json, to_json
from solkit.errors import SolkitError, UnsupportedError, WorkerError
from solkit.measure.timing.gpu_lock import exclusive_gpu
from solkit.processes.host import Program, python_command, python_path
from solkit.roofline.calibration.record import Calibration, Gpu

_LIMIT_S = 180.0  # it takes half of that, unless the GPU hangs
_PATIENCE_S = 60.0  # for another SolKit that measures on the GPU


def calibrate(device: Device, *, quick: bool = False) -> Calibration:
    """Measure the ceilings of a GPU of this machine, in a separate process.

    Progress goes to stderr, line by line. Nothing is stored: see `roofline.calibration.save`.

    Args:
        device: the GPU, from `solkit.roofline.nvml`.
        quick: fewer sizes and samples, in about a third of the time.

    Raises:
        GpuBusyError: another SolKit measures on it.
        UnsupportedError: the device is not in this machine, or torch does not see it.
        WorkerError: the measuring process failed.
    """
    if device.uuid is None:
        raise UnsupportedError(f"cannot calibrate {device.name}: it is not in this machine")
    with exclusive_gpu(device.uuid, _PATIENCE_S):
        return _run_child(device, device.uuid, quick)


def _run_child(device: Device, uuid: str, quick: bool) -> Calibration:
    gpu = to_json(_describe_gpu(device))
    request = {"gpu": gpu, "quick": quick, "start_s": time.monotonic()}
    with tempfile.TemporaryDirectory(prefix="solkit-calibrate-") as scratch:
        answer = Path(scratch) / "answer.json"
        command = [*python_command(_CODE.format(path=sys.path)), json.dumps(request), str(answer)]
        env = {
            **os.environ,
            **_ENVIRONMENT,
            "CUDA_VISIBLE_DEVICES": uuid,
            "PYTHONPATH": python_path(),
        }
        how = Program(command, env=env).run(_LIMIT_S)
        if not answer.exists():
            raise WorkerError(f"calibrating gave no answer: {how}")
        return _read_answer(answer.read_text(encoding="utf-8"))


_CODE = (
    "sys.path.extend({path!r}); from solkit.calibrate.session import main; "
    "main(sys.argv[1], sys.argv[2])"
)
_ENVIRONMENT = {"KINETO_LOG_LEVEL": "99"}  # the profiler's chatter


def _describe_gpu(device: Device) -> Gpu:
    return Gpu(
        key=device.key,
        name=device.name,
        uuid=device.uuid,
        sm_count=device.sm_count,
        max_sm_clock_mhz=device.clock_mhz,
        max_memory_clock_mhz=device.ceilings["dram"].clock_mhz,
        notes=device.notes,
    )


def _read_answer(answer: str) -> Calibration:
    reply = json.loads(answer)
    if "error" in reply:
        kind: type[SolkitError] = getattr(solkit.errors, reply["error"])
        raise kind(reply["message"])
    try:
        return from_json(Calibration, reply)
    except ValueError as error:
        raise WorkerError(
            f"the answer of the calibrating process makes no sense: {error}"
        ) from error
