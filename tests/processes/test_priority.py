"""Priority of processes that compute beside a measurement."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os
from solkit.processes.priority import lower_priority
for is_awaited in {calls}:
    lower_priority(is_awaited)
print(os.nice(0))
"""


@pytest.mark.parametrize(
    ("calls", "niceness"), [([False], 10), ([True], 5), ([True, False], 10), ([False, True], 10)]
)
def test_what_others_wait_for_comes_first_and_none_goes_up_again(calls, niceness):
    """A process without rights cannot raise its priority: asking for less must not fail."""
    own = int(subprocess.run(["nice"], capture_output=True, text=True, check=True).stdout)
    script = SCRIPT.format(calls=calls)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(ran.stdout) == max(own, niceness)
