"""The process of a search whose batches do what their folder's name says."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from solkit.core import BatchStatus
from solkit.errors import InputError
from solkit.integrations import search_process
from solkit.pipeline import batch as batches
from solkit.pipeline import target
from solkit.processes import jobs


class Processes:
    """Those of `solkit.pipeline.batch`, without any."""

    def __init__(self, gpu):
        self.gpu = gpu

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def batch(self, folder, *, gpu_minutes, settings, show):
        """Do what the folder's name says."""
        place = Path(folder)
        if place.name == "fails":
            raise InputError("no kernel can be tuned")
        if place.name == "breaks":
            return 1 / 0
        if place.name == "dies":
            os._exit(7)
        if place.name == "survey":
            time.sleep(600)
        if place.name == "finals":
            return SimpleNamespace(interrupted=has_limits_in_finals(show))
        if place.name == "long":
            return SimpleNamespace(interrupted=sleep_long(place))
        variables = os.environ.get("SET_LATER"), os.environ.get("SOLKIT_APPLY")
        seen = gpu_minutes, settings.on, settings.extended.device, *variables, sys.path[0]
        (place / "seen").write_text(" ".join(map(str, seen)))
        return SimpleNamespace(interrupted=False)


def has_limits_in_finals(show):
    """Tell whether a timer would interrupt the finals, or none the search."""
    show(BatchStatus("searching"))
    in_search, _ = signal.getitimer(signal.ITIMER_REAL)
    show(BatchStatus("final"))
    in_finals, _ = signal.getitimer(signal.ITIMER_REAL)
    return in_finals > 0 or in_search == 0


def sleep_long(place):
    """Tell whether it was interrupted, as a batch does."""
    (place / "begun").touch()
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        return True
    return False


def find_device(*_):
    """Note that it is asked for; fail, as one that is not there, if the environment says so."""
    if noted := os.environ.get("NOTES_START"):
        Path(noted).touch()
    if noted := os.environ.get("FAILS_AT_START"):
        Path(noted).touch()
        raise InputError("no GPU 1 in this machine")


def main(descriptor, on):
    """Serve as the real one does."""
    batches.BatchProcesses = Processes
    target.target_device = find_device
    jobs.start = lambda: None
    search_process.main(descriptor, on)
