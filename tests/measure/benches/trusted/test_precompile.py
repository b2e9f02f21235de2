"""Work on other cores, with processes that are fake."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
from pathlib import Path

import pytest

from solkit.core import Source, Verdict
from solkit.datasets.kernels import Kernel
from solkit.errors import WorkerError
from solkit.measure.benches.trusted import precompile
from solkit.measure.benches.trusted.precompile import Ahead, Compiled, FileServers
from solkit.roofline import devices

FACTS = '{"version": 1, "launches": []}'
ENDS = {
    "dies": -signal.SIGSEGV,
    "takes long": -signal.SIGALRM,
    "hangs": None,
    "is killed": -signal.SIGKILL,
    "cannot write": 1,
}


SMALL, LARGE = {"N": 8}, {"N": 9}
ANY = [{"DO": ""}, {"DO": "too big"}]
SHAPES = {
    "cuda.py": [{"shape": SMALL, "valid": []}, {"shape": LARGE, "valid": ANY}],
    "broken.py": [
        {"shape": SMALL, "valid": [{"DO": "cuda.cu(3): error: no such type"}, *ANY]},
        {"shape": LARGE, "valid": ANY},
    ],
    "nothing.py": [{"shape": SMALL, "valid": []}],
}


class FakeServer:
    """Its processes do what the path says; a configuration of "dies" ends its process."""

    def __init__(self, *_):
        self.forks, self.closed, self.asked, self.fails = 0, 0, [], None

    def fork(self, function, inputs, *, env, output):
        assert (env["CUDA_VISIBLE_DEVICES"], env["A"]) == ("", "1")
        self.forks += 1
        if self.fails is not None:
            raise self.fails
        if function.endswith(":compile_ahead"):
            *inputs, wants_facts = inputs
            assert wants_facts
        answer = Path(inputs[-1])
        assert inputs[-2].key == "h100-sxm"
        if function.endswith(":survey_space"):
            if inputs[0] in SHAPES:
                answer.write_text(json.dumps(SHAPES[inputs[0]]))
                return FakeFork(0)
            if inputs[0] in ("good.py",):
                answer.write_text(json.dumps([{"shape": {"N": 8}, "valid": ANY}]))
                return FakeFork(0)
            os.write(output, b"ImportError: no such module")
            if inputs[0] == "cut.py":
                answer.write_text('[{"shape"')
            return FakeFork(1)
        with answer.open("a") as file:
            _, reference, shape, choices, limit_s, *_ = inputs
            assert reference in (None, "task.py")
            for params in choices:
                self.asked.append((shape, params["DO"], limit_s))
                if params["DO"] in ENDS:
                    file.write('[0.1, "cut o')
                    os.write(output, b"ptxas said no")
                    return FakeFork(ENDS[params["DO"]])
                results = 0.5, params["DO"], FACTS, params["DO"] == "the disk is full"
                file.write(json.dumps(results) + "\n")
        return FakeFork(0)

    def close(self):
        self.closed += 1


class FakeFork:
    def __init__(self, ended):
        self.wait, self.end = lambda _: ended, lambda: None


@pytest.fixture
def working(monkeypatch):
    server = FakeServer()
    monkeypatch.setenv("A", "1")
    monkeypatch.setattr(precompile, "ForkServer", lambda *_, **__: server)
    with Ahead(devices.find("h100"), 2, limit_s=3.0) as working:
        yield working


def kernel(path):
    """One that builds an extension, where its name says so."""
    builds = path in ("cuda.py", "broken.py", "nothing.py")
    text = "from torch.utils import cpp_extension" if builds else ""
    source = Source("0" * 64, path, text)
    return Kernel(Path(path), path, "family", "kind", "file", source, source)


def compiled(working, *does):
    choices = [{"DO": do} for do in does]
    return working.compiled(kernel("good.py"), "task.py", {"N": 8}, choices).result(300)


def test_what_compiling_came_to(working):
    assert compiled(working, "", "too big") == [
        Compiled(0.5, "", FACTS),
        Compiled(0.5, "too big", FACTS),
    ]


@pytest.mark.parametrize(
    ("what", "verdict", "seconds", "message"),
    [
        ("dies", Verdict.DOES_NOT_COMPILE, None, "its process: exit code -11. ptxas said no"),
        ("takes long", Verdict.TIMED_OUT, 3.0, "took over 3 s"),
        # no fault of the configuration's
        ("hangs", Verdict.NOT_MEASURED, None, "it took over "),
        ("is killed", Verdict.NOT_MEASURED, None, "exit code -9."),
        ("cannot write", Verdict.NOT_MEASURED, None, "exit code 1."),
    ],
)
def test_one_that_ends_its_process_costs_no_other(working, what, verdict, seconds, message):
    first, second, third = compiled(working, "", what, "")
    assert first == third == Compiled(0.5, "", FACTS)
    assert (second.verdict, second.seconds) == (verdict, seconds)
    assert message in second.error


def test_a_compiler_that_the_machine_fails_says_nothing_of_the_kernel(working):
    failed, too_big = compiled(working, "the disk is full", "too big")
    assert (failed.verdict, failed.error) == (Verdict.NOT_MEASURED, "the disk is full")
    assert too_big.verdict is Verdict.DOES_NOT_COMPILE


def test_a_process_that_cannot_be_forked_costs_its_handful_alone(working):
    fails = OSError(errno.EMFILE, "Too many open files")
    working._server.fails = fails
    first, second = compiled(working, "", "too big")
    assert first == second
    assert (first.verdict, first.seconds) == (Verdict.NOT_MEASURED, None)
    assert first.error == f"it could not be compiled: {fails}"
    with pytest.raises(WorkerError) as error:
        working.space(kernel("good.py")).result(300)
    assert str(error.value) == f"good.py cannot be surveyed: {fails}"
    working._server.fails = None
    assert compiled(working, "") == [Compiled(0.5, "", FACTS)]


def test_where_no_temporary_file_can_be_written_it_ends(working, monkeypatch):
    def full(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(precompile.tempfile, "TemporaryDirectory", full)
    with pytest.raises(WorkerError, match=r"files cannot be written: .*No space left"):
        compiled(working, "")


def test_a_survey(working):
    assert working.space(kernel("good.py")).result(300) == [{"shape": {"N": 8}, "valid": ANY}]
    for path in ("bad.py", "cut.py"):  # the latter wrote a part of its answer
        with pytest.raises(WorkerError, match=f"{path} cannot be surveyed: .*no such module"):
            working.space(kernel(path)).result(300)


def test_an_extension_is_built_before_anything_else_is_compiled(working):
    assert working.space(kernel("cuda.py")).result(300) == SHAPES["cuda.py"]
    assert working._server.asked == [(LARGE, "", 300.0)]  # with minutes of time
    assert working.compiled(kernel("cuda.py"), None, LARGE, ANY).result(300) == [
        Compiled(0.5, "", FACTS),
        Compiled(0.5, "too big", FACTS),
    ]
    assert working.space(kernel("nothing.py")).result(300) == SHAPES["nothing.py"]


def test_an_extension_that_does_not_build_is_not_built_again(working):
    small, large = working.space(kernel("broken.py")).result(300)
    assert (len(small["valid"]), len(large["valid"])) == (1, 1)  # which say why
    (results,) = working.compiled(kernel("broken.py"), None, LARGE, large["valid"]).result(300)
    assert results.error == "cuda.cu(3): error: no such type"
    assert len(working._server.asked) == 1


def test_what_is_left_when_it_is_closed_starts_nothing_anew(working):
    working.__exit__()
    with pytest.raises(WorkerError, match="has ended"):  # as a thread that is still at it would
        working._compile_each(kernel("good.py"), None, {"N": 8}, [{"DO": ""}])
    assert working._server.forks == 0


def test_a_server_that_a_thread_starts_as_it_is_closed_is_ended(working, monkeypatch):
    server, fork = working._server, working._server.fork

    def close_first(*args, **kwargs):
        working.__exit__()
        return fork(*args, **kwargs)

    monkeypatch.setattr(server, "fork", close_first)
    working._compile_each(kernel("good.py"), None, {"N": 8}, [{"DO": ""}])
    assert (server.forks, server.closed) == (1, 2)


def test_a_survey_may_leave_extensions_unbuilt(working):
    assert working.space(kernel("broken.py"), build=False).result(300) == SHAPES["broken.py"]
    assert working._server.asked == []


def test_a_bound_is_of_one_shape(working, monkeypatch):
    def fork(function, inputs, *, env, output):  # noqa: ARG001
        assert function.endswith(":survey_bound")
        path, reference, shape, device, answer = inputs
        Path(answer).write_text(json.dumps([path, reference, shape, device.key]))
        return FakeFork(0)

    monkeypatch.setattr(working._server, "fork", fork)
    results = working.bound("good.py", "task.py", {"N": 8}).result(300)
    assert results == ["good.py", "task.py", {"N": 8}, "h100-sxm"]


def test_folders_of_extensions_last_as_long_as_it_does(working):
    folder = Path(working.environment["TORCH_EXTENSIONS_DIR"])
    assert folder.is_dir()
    working.__exit__()
    assert not folder.exists()


def test_what_compiled_once_is_not_compiled_again(working, monkeypatch):
    first = compiled(working, "", "too big")
    with monkeypatch.context() as patch:
        patch.setattr(working, "_run_forked", None)
        assert compiled(working, "") == first[:1]
    assert [result.error for result in compiled(working, "", "too big")] == [
        result.error for result in first
    ]


class FileServer:
    """A server of one file."""

    def __init__(self, file):
        self.file, self.is_alive, self.closed = file, True, False

    def load(self):
        if self.file == "broken.py":
            raise WorkerError("it does not load")

    def close(self):
        self.closed = True


@pytest.fixture
def servers():
    derived = []

    def derive(file):
        derived.append(FileServer(file))
        return derived[-1]

    servers = FileServers(derive)
    servers.derived = derived
    yield servers
    servers.close()
    assert all(server.closed for server in derived)


def server_of(servers, file):
    """The server that a job of the file gets, once nothing is loading."""
    with servers.server(file, "common") as server:
        entry = servers._servers.get(file)
        if entry is not None and entry.loaded is not None:
            entry.loaded.exception(300)
        return server if server == "common" else server.file


def test_a_file_that_comes_again_gets_a_server_of_its_own(servers):
    first, *_, last = (server_of(servers, "a.py") for _ in range(3))
    assert (first, last) == ("common", "a.py")
    assert server_of(servers, "b.py") == "common"
    assert [server.file for server in servers.derived] == ["a.py"]


def test_a_file_without_a_name_gets_the_common_server(servers):
    assert [server_of(servers, None) for _ in range(3)] == ["common"] * 3


def test_what_does_not_load_or_has_died_is_left_to_the_common_server(servers):
    assert [server_of(servers, "broken.py") for _ in range(4)] == ["common"] * 4
    assert [server_of(servers, "a.py") for _ in range(3)][-1] == "a.py"
    servers.derived[-1].is_alive = False
    assert server_of(servers, "a.py") == "common"


def test_the_server_that_was_idle_for_longest_ends(servers):
    for file in "abcd":
        assert [server_of(servers, file) for _ in range(3)][-1] == file
    server_of(servers, "a")
    with servers.server("b", "common"):  # in use
        server_of(servers, "e")
        servers._loading.submit(int).result(300)
    assert [server.file for server in servers.derived if server.closed] == ["c"]


def test_no_server_ends_that_is_in_use(servers):
    with contextlib.ExitStack() as stack:
        for file in "abcd":
            stack.enter_context(servers.server(file, "common"))
        assert [server_of(servers, "e") for _ in range(3)] == ["common"] * 3
    assert servers.derived == []
