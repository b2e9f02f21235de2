from __future__ import annotations

import ctypes
import multiprocessing
import textwrap
import traceback
from types import SimpleNamespace

import pytest
import torch

from solkit.measure.anti_cheating import probes
from solkit.measure.anti_cheating.cheat_detection import CheatDetector
from solkit.measure.anti_cheating.output_aliasing import Outputs
from solkit.measure.timing import median_interval

LIMIT_S = 300  # only a child that hangs takes so long


def in_fork(*sources: str):
    """Arm a guard and run candidates' sources; what each adds to what is found: tricks, evidence.

    In a fork, since an audit hook cannot be removed, and much of this breaks a process for good.
    """
    context = multiprocessing.get_context("fork")
    mine, other = context.Pipe()
    texts = [textwrap.dedent(source) for source in sources]
    process = context.Process(target=run, args=(other, texts))
    process.start()
    try:
        assert mine.poll(LIMIT_S)
        error, results = mine.recv()
    finally:
        process.kill()
        process.join()
    assert error is None, error
    print(*results, sep="\n")
    return [
        ([(f.trick, f.is_proof) for f in result], [f.evidence for f in result])
        for result in results
    ]


def run(pipe, sources):
    try:
        findings = CheatDetector().findings
        seen, added = set(), []
        for source in sources:
            names = {"torch": torch}
            exec(compile(source, "candidate.py", "exec"), names)
            results = findings(names.get("returned"), names.get("inputs", ()))
            added.append([result for result in results if result not in seen])
            seen |= set(results)
        pipe.send((None, added))
    except BaseException:
        pipe.send((traceback.format_exc(), ()))


assert median_interval.interval_rank  # of a module that is there when a guard is armed
pytestmark = pytest.mark.usefixtures("prepared_forks")


INNOCENT = (
    "returned = torch.ones(3) @ torch.ones(3)",
    "import gc; gc.collect()",
    "import collections; collections.namedtuple('P', 'x y')",
    "import threading; t = threading.Thread(target=print); t.start(); t.join()",
    "import subprocess; subprocess.run(['true'])",
    "returned = {'a': [torch.ones(2)], 'b': (torch.ones(3), None, 2)}",
    "x = torch.ones(3); inputs = (x,); returned = x + 1",
    "torch.set_default_device('cpu')",
    "with torch.device('meta'), torch.autocast('cpu'): pass",
)


def test_nothing_is_found():
    for source, (tricks, _) in zip(INNOCENT, in_fork(*INNOCENT), strict=True):
        assert tricks == [], source


REPLACED = (
    ("torch.cuda.Event.elapsed_time = lambda *a: 0", "torch.cuda.Event.elapsed_time"),
    ("torch.cuda.synchronize = print", "torch.cuda.synchronize"),
    ("torch.cuda.synchronize = torch.cuda.current_device", "torch.cuda.synchronize"),
    ("import time; time.perf_counter = time.time", "time.perf_counter"),
    ("import builtins; builtins.max = min", "builtins.max"),
    ("del torch.allclose", "torch.allclose was removed"),
    ("torch.Tensor.__sub__ = lambda a, b: a", "torch.Tensor.__sub__"),
    ("torch.relu = lambda x: x", "torch.relu"),
    ("torch.nn.functional.softmax = lambda x, **k: x", "torch.nn.functional.softmax"),
    ("torch.nn.Module.__call__ = print", "torch.nn.Module.__call__"),
    ("import triton; triton.testing.do_bench = print", "triton.testing.do_bench"),
    ("import triton; triton.JITFunction.run = print", "JITFunction.run"),
    (
        "from solkit.measure.timing import median_interval as s\ndef f(count, confidence): pass\n"
        "s.interval_rank.__code__ = f.__code__",
        "solkit.measure.timing.median_interval.interval_rank was given new code",
    ),
    (
        "from solkit.measure.timing import median_interval as s\n"
        "s.median_interval.__defaults__ = (0.5,)",
        "median_interval was given new code",
    ),
    (
        "from solkit.measure.timing import median_interval as s\ns.sorted = list",
        "solkit.measure.timing.median_interval.sorted now hides",
    ),
    ("import sys; sys.modules['time'] = sys", "the module time was replaced"),
    (
        "from torch.cuda import Event\nEvent.query = lambda self: True",
        "torch.cuda.Event.query",
    ),
)


def test_replaced_functions():
    result = in_fork(*(source for source, _ in REPLACED))
    for (source, name), (tricks, evidence) in zip(REPLACED, result, strict=True):
        assert set(tricks) == {("patched function", True)}, source
        assert any(name in text for text in evidence), source


@pytest.mark.slow
def test_evidence_names_the_file_of_the_replacement():
    [(_, evidence)] = in_fork("torch.cuda.synchronize = lambda: None")
    assert evidence[0] == ("torch.cuda.synchronize was replaced by <lambda> of candidate.py")


FLAGS = (
    ("torch.backends.cuda.matmul.allow_tf32 = True", "cuda.matmul.fp32_precision"),
    ("torch.set_default_dtype(torch.float16)", "default dtype is now torch.float16"),
    ("torch.set_grad_enabled(False)", "gradients is now False"),
    ("torch.autocast('cpu').__enter__()", "autocast on the CPU is now True"),
    ("torch.backends.cuda.enable_flash_sdp(False)", "flash_sdp_enabled is now False"),
    ("assert torch.set_flush_denormal(True)", "subnormals kept is now False"),
    ("torch.backends.cudnn.enabled = False", "torch.backends.cudnn.enabled"),
)


@pytest.mark.slow
def test_flags_are_reported_but_no_proof():
    result = in_fork(*(source for source, _ in FLAGS))
    for (source, name), (tricks, evidence) in zip(FLAGS, result, strict=True):
        assert set(tricks) == {("global flag", False)}, source
        assert any(name in text for text in evidence), source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("threading.Thread(target=lambda: time.sleep(600), daemon=True).start()", [True]),
        ("threading.Thread(target=time.sleep, args=(600,), daemon=True).start()", [True]),
        ("threading.Timer(600, print).start()", [True]),
        ("_thread.start_new_thread(time.sleep, (600,))", [True]),
        ("ThreadPoolExecutor().submit(time.sleep, 600)", [True]),
        # the semaphore counts workers that are done, however busy this machine is
        ("p = ThreadPoolExecutor(); p.submit(int); p._idle_semaphore.acquire()", [False]),
        ("with ThreadPoolExecutor() as pool: pool.submit(int)", []),
    ],
)
def test_threads(source, expected):
    imports = "import threading, _thread, time\nfrom concurrent.futures import ThreadPoolExecutor\n"
    [(tricks, evidence)] = in_fork(imports + source)
    assert tricks == [("background thread", is_proof) for is_proof in expected]
    assert all("candidate.py:3" in text for text in evidence)


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess; subprocess.Popen(['sleep', '60'])",
        "import os, time; os.fork() or time.sleep(60) or os._exit(0)",
        "import multiprocessing as m, time\n"
        "m.get_context('fork').Process(target=time.sleep, args=(60,)).start()",
    ],
)
def test_processes(source):
    [(tricks, evidence)] = in_fork(source)
    assert tricks == [("background process", True)]
    assert "started at candidate.py:" in evidence[0]


@pytest.mark.parametrize(
    ("source", "trick"),
    [
        ("import signal; signal.setitimer(signal.ITIMER_PROF, 600)", "timer signal"),
        ("import signal; signal.alarm(600)", "timer signal"),
        ("import sys; sys.setprofile(lambda *a: None)", "trace hook"),
        ("import threading; threading.settrace(lambda *a: None)", "trace hook"),
    ],
)
def test_timers_and_hooks(source, trick):
    assert in_fork(source)[0][0] == [(trick, True)]


@pytest.mark.parametrize(
    ("source", "event"),
    [
        ("import gc; gc.get_objects()", "gc.get_objects"),
        ("import sys; sys._getframe(1)", "sys._getframe"),
        ("import inspect; inspect.stack()", "sys._getframe"),
    ],
)
def test_looking_around_is_reported(source, event):
    [(tricks, evidence)] = in_fork(source)
    assert tricks == [("peeked memory", False)]
    assert evidence[0] == f"{event} was called at candidate.py:1"


def test_modes_that_stay():
    source = """
        from torch.overrides import TorchFunctionMode
        from torch.utils._python_dispatch import TorchDispatchMode
        class Mine(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                return function(*args, **(kwargs or {}))
        class Other(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                return function(*args, **(kwargs or {}))
        Mine().__enter__()
        Other().__enter__()
    """
    [(tricks, evidence)] = in_fork(source)
    assert tricks == [("torch mode", True)] * 2
    assert [text.split()[0] for text in evidence] == ["Mine", "Other"]


@pytest.mark.slow
def test_ops_in_the_dispatcher():
    own = """
        library = torch.library.Library("mine", "DEF")
        library.define("op(Tensor x) -> Tensor")
        library.impl("op", lambda x: x.clone(), "CPU")
    """
    assert in_fork(own)[0][0] == []
    other = """
        library = torch.library.Library("aten", "IMPL")
        library.impl("mul.Tensor", lambda x, y: x, "CPU")
    """
    [(tricks, evidence)] = in_fork(other)
    assert tricks == [("dispatcher override", True)]
    assert "aten/mul.Tensor/CPU" in evidence[0]


# ------------------------------------------------------------------------------------- outputs


def look(returned, inputs=(), shares_memory=False):
    results = Outputs().findings(returned, inputs, shares_memory)
    return [(finding.trick, finding.is_proof) for finding in results]


class Own(torch.Tensor):
    pass


class Listed(list):
    def __iter__(self):
        return iter(())


class Plain(list):
    pass


X = torch.arange(6.0).view(2, 3)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (None, []),
        (X.clone(), []),
        ((X + 1, {"a": X + 2}), []),
        (torch.nn.Parameter(X.clone()), []),
        (torch.empty(0), []),
        (X.to_sparse(), []),
        (X.clone().as_subclass(Own), [("lazy tensor", True)]),
        (torch.nn.Buffer(X.clone()), []),
        (Listed([X.clone()]), [("lazy container", True)]),
        (Plain([X.clone()]), []),
        (X, [("aliased output", True)]),
        (X.t(), [("aliased output", True)]),
        ([X[0, :0]], []),
        (X.clone()[:1].expand(4, 3), [("unmaterialised output", True)]),
        (X.clone().t(), []),
    ],
    ids=str,
)
def test_outputs(returned, expected):
    assert look(returned, (X, [torch.ones(3)])) == expected


def test_memory_may_be_shared_where_the_reference_shares_it():
    assert look(X.t(), (X,), shares_memory=True) == []
    assert look(X.clone()[:1].expand(4, 3), (X,), shares_memory=True) == []


def test_a_part_of_the_same_allocation_is_the_same_memory():
    whole = torch.ones(10)
    assert look(whole[5:], (whole[:5],)) == [("aliased output", True)]


def test_a_buffer_that_is_returned_again_is_reported():
    outputs, buffer = Outputs(), torch.ones(3)
    assert list(outputs.findings(buffer, (), False)) == []
    assert [f.is_proof for f in outputs.findings(buffer[:2], (), False)] == [False]
    assert list(outputs.findings(torch.ones(3), (), False)) == []


# ------------------------------------------------------------------------------------- streams


class FakeStream:
    """A stream of a pool of four; the second one is busy."""

    created = 0

    def __init__(self, priority=0):
        assert priority in (0, -1)
        FakeStream.created += 1
        self.cuda_stream = 100 + FakeStream.created % 4
        self.synchronize = lambda: None

    def query(self):
        return self.cuda_stream != FakeStream.busy


@pytest.fixture
def streams(monkeypatch):
    """Fake streams and driver; a function that sets the busy one and the window of one."""

    def driver(stream, attribute, window):
        assert attribute == 1
        if window_of.get("stream") != stream.value:
            return 1  # CUDA_ERROR_INVALID_VALUE
        window._obj.base_ptr, window._obj.num_bytes = window_of["base"], 64
        window._obj.hit_prop = window_of["property"]
        return 0

    window_of: dict[str, int] = {}
    FakeStream.busy = None
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "current_stream", FakeStream)
    fake = SimpleNamespace(cuStreamGetAttribute=driver)
    monkeypatch.setattr(ctypes, "CDLL", {"libcuda.so.1": fake}.get)
    return window_of


@pytest.mark.usefixtures("streams")
def test_streams_at_rest():
    assert list(probes.stream_findings([X])) == []


@pytest.mark.usefixtures("streams")
def test_a_busy_stream():
    FakeStream.busy = 102
    (finding,) = probes.stream_findings([X])
    assert (finding.trick, finding.is_proof) == ("unjoined stream", True)
    assert finding.evidence.startswith("1 stream(s) still work")


@pytest.mark.parametrize(
    ("offset", "kind", "expected"),
    [(0, 2, [True]), (8, 2, [True]), (1 << 20, 2, [False]), (-64, 2, [False]), (0, 1, [])],
)
def test_a_window_that_keeps_data_in_l2(streams, offset, kind, expected):
    streams |= {"stream": 103, "base": X.data_ptr() + offset, "property": kind}
    results = list(probes.stream_findings([X]))
    assert [(f.trick, f.is_proof) for f in results] == [("L2 persistence", p) for p in expected]


def test_no_streams_without_cuda():
    assert list(probes.stream_findings([X])) == []
