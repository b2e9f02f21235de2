"""What the process that times might do, in a process of its own and with no GPU."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from multiprocessing.connection import Connection

from solkit.core import Verdict
from solkit.measure.benches.trusted.timing import Environment, Lost, shared_numbers

ENVIRONMENT = Environment(
    "580.1", "13.0", "2.13.0", "3.7.1", "3.12.1", "0.1.0", "Linux", "not at all"
)


def serve(device, environment, line, memory):
    """Answer handfuls; their path says how."""
    connection = Connection(line)
    called = shared_numbers(memory)
    assert (device.uuid, environment) == ("GPU-0", {"A": "1"})
    connection.send(ENVIRONMENT)
    while True:
        try:
            handful = connection.recv()
        except EOFError:
            return
        if handful.path == "dies at once":
            os._exit(7)
        for number, draft in enumerate(handful.drafts):
            called[0] = number
            called[1] += 1
            if number == 1:
                second(connection, handful.path, draft)
        pid = str(os.getpid())
        connection.send([replace(d, verdict=Verdict.CORRECT, message=pid) for d in handful.drafts])


def second(connection, path, draft):
    """What calling the second configuration does."""
    if path == "dies":
        os._exit(7)
    if path == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if path == "is killed and goes slowly":  # as where the driver clears away
        connection.close()
        time.sleep(1.5)
        os.kill(os.getpid(), signal.SIGKILL)
    if path == "hangs":
        time.sleep(600)
    if path == "loses the GPU":
        changed_draft = replace(draft, verdict=Verdict.CRASHED, message="an illegal memory access")
        connection.send(Lost(changed_draft))
        os._exit(1)


def no_gpu(*_):
    """Cannot start."""
    raise SystemExit(3)


def silent(*_):
    """Never ready."""
    time.sleep(600)
