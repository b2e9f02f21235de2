"""Which messages are the machine's failures; the logs are shaped as the tools print them."""

from __future__ import annotations

import pytest

from solkit.processes.host import is_machine_fault

BUILD = """Error building extension 'scale': [1/3] nvcc -O3 -c cuda.cu -o cuda.cuda.o
FAILED: cuda.cuda.o
{}
ninja: build stopped: subcommand failed.
"""


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 28] No space left on device: 'kernel.cubin'",
        "OSError: [Errno 122] Disk quota exceeded: 'kernel.cubin'",
        "`ptxas` failed with error code -9 / `ptxas` stderr:",
        BUILD.format("nvcc error   : 'cicc' died due to signal 9 (Kill signal)"),
        BUILD.format("nvcc error   : 'ptxas' died due to signal 9 (Kill signal)"),
        BUILD.format(
            "c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated."
        ),
        BUILD.format("collect2: fatal error: ld terminated with signal 9 [Killed]"),
        BUILD.format("/tmp/cc2mYx0T.s: Error: can't close main.o: No space left on device"),
    ],
)
def test_a_full_disk_and_a_killed_compiler_are_the_machines(text):
    assert is_machine_fault(text)


@pytest.mark.parametrize(
    "text",
    [
        "`ptxas` failed with error code 255 / `ptxas` stderr:",
        BUILD.format("nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)"),
        BUILD.format(
            "c++: internal compiler error: Segmentation fault signal terminated program cc1plus"
        ),
        BUILD.format('cuda.cu(9): error: identifier "signal" is undefined'),
    ],
)
def test_a_compiler_that_refuses_or_crashes_is_not(text):
    assert not is_machine_fault(text)
