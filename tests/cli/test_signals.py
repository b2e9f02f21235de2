"""Ctrl-C and SIGTERM end a command with its code, without a traceback, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from solkit.processes.parallel_calls import process_pool

ASKED = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"a test","version":"1"}}}\n'
)
SERVERS = {
    "serve": ("serve", "--port", "0", "--device", "h100"),
    "mcp": ("mcp", "--device", "h100"),
}
TRAIN = """
import os, sys, time
from solkit import cli
from solkit.surrogate import training
from solkit.processes.parallel_calls import process_pool

def slow(*_, **__):
    with process_pool(2) as workers:
        print(workers.submit(os.getpid).result(), flush=True)
        workers.submit(time.sleep, 60).result()  # until it is interrupted

if __name__ == "__main__":
    training.train = slow
    sys.argv = ["solkit", "train", "--out", "never.solkit", "h100"]
    cli.main()
"""


def begun(folder, *words, text=None):
    """A process in a session of its own, after its first line; its temporary files in a folder."""
    (folder / "temporary").mkdir()
    env = {**os.environ, "TMPDIR": str(folder / "temporary"), "XDG_DATA_HOME": str(folder / "data")}
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=env, text=True, start_new_session=True, cwd=folder,
    )  # fmt: skip
    if text is not None:
        process.stdin.write(text)
        process.stdin.flush()
    return process, process.stdout.readline()


def ended(process, number):
    """The exit code and stderr after a signal to all of a terminal's processes."""
    os.killpg(process.pid, number)
    code = process.wait(60)
    return code, process.communicate()[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        ("serve", signal.SIGINT, 130),
        pytest.param(*("serve", signal.SIGTERM, 143), marks=pytest.mark.slow),
        ("mcp", signal.SIGINT, 130),
        pytest.param(*("mcp", signal.SIGTERM, 143), marks=pytest.mark.slow),
    ],
)
def test_a_server_leaves_no_folder_behind(tmp_path, command, number, code):
    text = ASKED if command == "mcp" else None
    process, line = begun(tmp_path, "-m", "solkit", *SERVERS[command], text=text)
    assert ("jsonrpc" if text else "SolKit serves") in line
    result, stderr = ended(process, number)
    assert result == code
    assert "Traceback" not in stderr
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_training_without_a_word_of_its_workers(tmp_path, number, code):
    (tmp_path / "slow.py").write_text(TRAIN)
    process, line = begun(tmp_path, "slow.py")
    result, stderr = ended(process, number)
    assert (result, stderr) == (code, "solkit: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(line), 0)


def test_what_ends_the_block_ends_the_pool():
    def failing():
        with process_pool(2) as workers:
            started.append(workers.submit(os.getpid).result())
            raise ValueError("mine")

    started: list[int] = []
    with pytest.raises(ValueError, match="mine"):
        failing()
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
