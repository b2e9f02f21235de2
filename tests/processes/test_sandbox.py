"""Real sandboxes, on the CPU, where bubblewrap is to be had."""

from __future__ import annotations

import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from solkit.core import MeasureSettings, Verdict
from solkit.errors import UnsupportedError
from solkit.measure import Session
from solkit.processes import sandbox
from solkit.processes.child import Child
from solkit.processes.forkserver import children_of
from solkit.processes.sandbox import Sandbox


def trouble() -> str:
    """Why there can be no sandbox here; empty where there can."""
    try:
        Sandbox("gc:collect", {}, "cpu")
    except UnsupportedError as error:
        return str(error)
    return ""


WHY_NOT = trouble()
needs_bwrap = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with a secret, and one in the environment."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "secret").write_text("do not read this")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("HF_TOKEN", "do not read this either")
    return folder


@pytest.fixture
def within(tmp_path, home):  # noqa: ARG001  (the environment that it is made in)
    """Run Python in a sandbox that shows a folder; what it prints. No torch is needed for this."""
    shown = tmp_path / "shown"
    shown.mkdir()
    sandbox = Sandbox("gc:collect", {"PYTHONUNBUFFERED": "1"}, "cpu")

    def run(code, **options):
        server = sandbox.server([str(shown / "kernel.py")])
        env = sandbox.environment(os.environ)
        child = Child.start(
            server, "builtins:exec", (dedent(code), {}), env=env, folder=sandbox.folder, **options
        )
        child.end(240)
        return "\n".join(child.printed_lines())

    run.sandbox, run.shown = sandbox, shown
    yield run
    sandbox.close()


@needs_bwrap
def test_what_cannot_be_done(within, home, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "socket"))
        local.listen()
        attempts = {
            "a file in home": f"open({str(home / 'secret')!r}).read()",
            "another file there": f"open({str(home / 'new')!r}, 'w')",
            "a file beside the kernel": f"open({str(within.shown / 'new')!r}, 'w')",
            "a file of the system": "open('/usr/new', 'w')",
            "a new folder": "os.mkdir('/new')",
            "the shadow file": "open('/etc/shadow').read()",
            "this machine's network": f"socket.create_connection({server.getsockname()!r}, 5)",
            "the internet": "socket.create_connection(('192.0.2.1', 80), 5)",
            "a socket of another's": f"socket.socket(1).connect({str(tmp_path / 'socket')!r})",
            "another's memory": f"open('/proc/{os.getpid()}/mem', 'rb').read(1)",
            "another's environment": f"open('/proc/{os.getpid()}/environ', 'rb').read()",
            "the token": "os.environ['HF_TOKEN']",
            "the kernel's settings": "open('/proc/sys/kernel/hostname', 'w')",
            "mounting": "subprocess.run(['mount', '-t', 'tmpfs', 'x', '/usr'], check=True)",
        }
        code = "import os, socket, subprocess\n" + "".join(
            f"try:\n    {attempt}\n    print('done:', {name!r})\n"
            "except (OSError, KeyError, subprocess.CalledProcessError) as error:\n"
            f"    print('not done:', {name!r})\n"
            for name, attempt in attempts.items()
        )
        lines = within(code).splitlines()
    assert [line for line in lines if line.startswith("done")] == []
    assert sum(line.startswith("not done") for line in lines) == len(attempts)
    assert not (home / "new").exists()


@needs_bwrap
def test_what_can_be_done(within, home):
    (within.shown / "helper.py").write_text("ANSWER = 42")
    code = f"""
        import os, subprocess, sys, tempfile
        sys.path.insert(0, {str(within.shown)!r})
        import helper
        for folder in (os.path.expanduser("~"), tempfile.gettempdir()):
            open(os.path.join(folder, "file"), "w").write("x" * 100)
        subprocess.run(["true"], check=True)
        print(helper.ANSWER, open("/proc/self/status").read().count("NoNewPrivs:\\t1"), os.getpid())
    """
    answer, no_new_privileges, pid = within(code).split()
    assert (answer, no_new_privileges) == ("42", "1")
    assert int(pid) != os.getpid()
    assert sorted(os.listdir(home)) == ["secret"]  # noqa: PTH208


@needs_bwrap
def test_nothing_stays(within):
    within("open('/tmp/large', 'w').write('x' * 1000)")
    scratch = Path(within.sandbox._scratch.name)
    assert (scratch / "large").exists()
    server = within.sandbox._server.pid
    assert children_of(server)
    within.sandbox.close()
    assert not scratch.exists()
    assert not Path(f"/proc/{server}").exists()


@needs_bwrap
def test_a_file_in_home_shows_alone(home, within):
    kernel = home / "kernel.py"
    kernel.write_text("")
    server = within.sandbox.server([str(kernel)])
    code = f"import os; print(sorted(os.listdir({str(home)!r})))"
    child = Child.start(server, "builtins:exec", (code, {}), env={}, folder=within.sandbox.folder)
    child.end(240)
    assert child.printed_lines() == ["['kernel.py']"]


@needs_bwrap
def test_paths_refer_to_the_callers_folder(within, monkeypatch):
    (within.shown / "kernel.py").write_text("")
    (within.shown / "below").mkdir()
    monkeypatch.chdir(within.shown / "below")
    assert within("import os; print(os.getcwd(), os.path.exists('../kernel.py'))").split() == [
        str(within.shown / "below"),
        "True",
    ]


@needs_bwrap
def test_another_folder_is_shown_by_another_sandbox(within, tmp_path):
    first = within.sandbox.server([str(within.shown / "a.py")])
    assert within.sandbox.server([str(within.shown / "b.py")]) is first
    other = tmp_path / "other"
    other.mkdir()
    assert within.sandbox.server([str(other / "c.py")]) is not first
    assert not first.is_alive


@needs_bwrap
def test_it_outlives_the_thread_that_started_it(within):
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(within, "import os; print(os.getppid())").result()
    server = within.sandbox.server([])
    assert server.fork("time:sleep", (0,), env={}).wait(240) == 0
    assert within("import os; print(os.getppid())") == first


@needs_bwrap
def test_links_on_the_module_path_may_lead_to_what_is_shown_after_them(
    within, tmp_path, monkeypatch
):
    """As the rooms of SolKit in a checkout do, which an editable install has on its path."""
    package, room = tmp_path / "a", tmp_path / "room"
    for folder in (package, room):
        folder.mkdir()
    (package / "link").symlink_to("../room")
    (room / "furniture.py").write_text("print('found')")
    monkeypatch.setattr(sys, "path", [str(package), str(package / "link"), *sys.path])
    Sandbox("gc:collect", {}, "cpu").close()  # no error
    assert within("import furniture") == "found"


# -------------------------------------------------------------------------------- sessions

PROBLEM = """
import torch

def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2
"""
HOSTILE = """
import os, pathlib, socket, torch

def kernel(x):
    found = []
    for attempt in (lambda: socket.create_connection(("192.0.2.1", 80), 5),
                    lambda: (pathlib.Path({home!r}) / "left").write_text("here"),
                    lambda: (pathlib.Path({home!r}) / "secret").read_text()):
        try:
            attempt()
            found.append(attempt)
        except OSError:
            pass
    return x * 2 + len(found)
"""


@pytest.mark.slow
@needs_bwrap
def test_sessions_measure_in_a_sandbox_what_they_measure_without(home, tmp_path):
    problem = tmp_path / "problem.py"
    problem.write_text(PROBLEM)
    folder = tmp_path / "candidates"
    folder.mkdir()

    def measure(session, text):
        path = folder / "candidate.py"
        path.write_text(text)
        return session.measure(str(path), {}, {}, reference=str(problem))

    with Session(MeasureSettings(sandbox=True), device="cpu") as session:
        with pytest.raises(UnsupportedError, match="only a CUDA device can be timed"):
            measure(session, HOSTILE.format(home=str(home)))  # it is right: it could do none of it
        pids = session.pids
        outcome = measure(session, "def kernel(x): return x * 3")
        assert (outcome.verdict, session.pids) == (Verdict.WRONG, pids)
        outcome = measure(session, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
        assert outcome.verdict is Verdict.CRASHED
        assert "SIGSEGV" in outcome.errors[0]
        outcome = measure(session, "def kernel(x): return x * 3")
        assert outcome.verdict is Verdict.WRONG
        assert session.pids != pids
    assert sorted(os.listdir(home)) == ["secret"]  # noqa: PTH208
    with Session(device="cpu") as session:
        outcome = measure(session, HOSTILE.format(home=str(home)))
        assert outcome.verdict is Verdict.WRONG  # without one it can
    assert (home / "left").exists()


def test_without_bubblewrap_it_is_said_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="apt-get install bubblewrap"):
        Session(MeasureSettings(sandbox=True), device="cpu")


def test_where_user_namespaces_are_forbidden_it_is_said_what_to_do(monkeypatch, tmp_path):
    bwrap = tmp_path / "bwrap"
    bwrap.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    bwrap.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(UnsupportedError, match=r"(?s)user namespaces.*No permissions to create"):
        Session(MeasureSettings(sandbox=True), device="cpu")


def test_only_harmless_variables_are_passed_on():
    fields = {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0", "AWS_SECRET_ACCESS_KEY": "x"}
    fields |= {"TRITON_CACHE_DIR": "/home/me/.triton", "LC_ALL": "C", "SSH_AUTH_SOCK": "/run/x"}
    assert set(sandbox.harmless_variables(fields)) == {"PATH", "CUDA_VISIBLE_DEVICES", "LC_ALL"}
