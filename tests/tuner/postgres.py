"""Debian's PostgreSQL in a temporary folder, to be killed and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

WHY_NOT = "PostgreSQL is not installed: apt-get install postgresql"


def tool(name):
    """A program of PostgreSQL's, where Debian puts it, or on the path; ``None`` without it."""
    paths = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(paths[-1]) if paths else shutil.which(name)


def user():
    """Who may run it: not root. The prefix of a command, and the user's name."""
    if os.geteuid() != 0:
        return [], pwd.getpwuid(os.geteuid()).pw_name
    for name in ("postgres", "nobody"):
        try:
            who = pwd.getpwnam(name)
        except KeyError:
            continue
        ids = [f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids], name
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


class Server:
    """A server on a port of its own."""

    def __init__(self):
        if tool("initdb") is None or tool("pg_ctl") is None:
            pytest.skip(WHY_NOT)
        self.prefix, self.user = user()
        self.folder = Path(tempfile.mkdtemp(prefix="solkit-postgres-", dir="/tmp"))
        shutil.chown(self.folder, self.user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        data = str(self.folder / "data")
        self.run(tool("initdb"), "-D", data, "-A", "trust", "-U", "solkit", "--no-sync")
        self.start()

    def run(self, *command):
        done = subprocess.run(
            [*self.prefix, *command], cwd=self.folder, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def control(self, *command):
        data, log = str(self.folder / "data"), str(self.folder / "log")
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self.run(tool("pg_ctl"), "-D", data, "-w", "-l", log, "-o", options, *command)

    def start(self):
        self.control("start")

    def kill(self):
        """As if the machine lost its power: connections break, what was committed stays."""
        self.control("-m", "immediate", "stop")

    def close(self):
        if (self.folder / "data" / "postmaster.pid").exists():
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database="postgres", user="solkit", password="secret"):
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"
