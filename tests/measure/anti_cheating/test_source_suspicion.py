from __future__ import annotations

from textwrap import dedent

import pytest

from solkit.measure.anti_cheating.source_suspicion import suspicions


def look(source):
    results = suspicions(dedent(source), "mine.py")
    print(*results, sep="\n")
    return {(finding.trick, finding.is_proof) for finding in results}


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.cuda.Event.elapsed_time = None",
        "import torch as t\nt.cuda.synchronize = lambda: None",
        "from torch import cuda\ncuda.Event.record = None",
        "from torch.cuda import Event as E\nE.elapsed_time = None",
        "import torch\ndef kernel(x):\n    torch.cuda.Event.elapsed_time: object = None",
        "import torch\nsetattr(torch.cuda.Event, 'elapsed_time', None)",
        "import torch\nsetattr(torch.cuda.Event, name, None)",
        "import time\ndel time.perf_counter",
        "import time\ntime.time = time.monotonic",
        "import builtins\nbuiltins.abs = None",
        "import sys\nsys.modules['time'] = None",
        "import solkit.measure.checking.tolerance as c\nc.judge = None",
        "from unittest import mock\nmock.patch('torch.cuda.synchronize').start()",
        "from unittest.mock import patch\nimport torch\npatch.object(torch, 'allclose').start()",
        "import triton\ntriton.testing.do_bench = None",
    ],
)
def test_replacing_instruments_is_proof(source):
    assert ("patched function", True) in look(source)


@pytest.mark.parametrize(
    "source",
    [
        "class Event: pass\nEvent.elapsed_time = None",
        "import torch\ndef f(torch):\n    torch.cuda.Event.elapsed_time = None",
        "import time\ntime = object()\ntime.time = 3",
        "self.torch.cuda.Event.elapsed_time = None",
        "import torch\nevent = torch.cuda.Event()\nevent.elapsed_time = 3",
        "import torch\nt = torch.cuda.Event().elapsed_time(torch.cuda.Event())",
        "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True",
        "import torch._inductor.config\ntorch._inductor.config.max_autotune = True",
        "import torch\ntorch.relu = None",
        "import torch\nmodel.forward = None",
        "setattr(x, 'time', 3)",
    ],
)
def test_what_is_no_proof(source):
    assert not any(is_proof for _, is_proof in look(source))


@pytest.mark.parametrize(
    ("source", "trick"),
    [
        ("import torch\ntorch.relu = None", "patched function"),
        ("import sys\nfor m in sys.modules.values(): pass", "patched function"),
        ("import solkit.measure", "patched function"),
        ("f.__code__ = g.__code__", "patched function"),
        ("import torch\ntorch.backends.cudnn.enabled = False", "global flag"),
        ("import torch\ntorch.set_default_dtype(torch.half)", "global flag"),
        ("import threading\nthreading.Thread(target=f).start()", "background threads or processes"),
        ("import os\nos.fork()", "background threads or processes"),
        (
            "from concurrent.futures import ThreadPoolExecutor as P\nP()",
            "background threads or processes",
        ),
        ("import gc\ngc.get_objects()", "peeked memory"),
        ("import inspect\ninspect.stack()", "peeked memory"),
        ("import sys\nsys.settrace(f)", "trace hook"),
        ("import time\ntime.monotonic()", "timing-aware"),
        (
            "n = 0\ndef kernel(x):\n    global n\n    n += 1\n    return x if n < 9 else n",
            "timing-aware",
        ),
        ("def kernel(x):\n    self.calls += 1\n    if self.calls > 3: return", "timing-aware"),
        ("exec('x = 1')", "hidden code"),
        ("import os\nos._exit(0)", "early exit"),
        ("import torch\nclass T(torch.Tensor): pass", "lazy tensor"),
        ("class T:\n    def __torch_function__(self): pass", "lazy tensor"),
        ("y = x.as_subclass(T)", "lazy tensor"),
        ("from torch.utils import _pytree as p\np.register_pytree_node(A, b, c)", "lazy container"),
        ("import torch\ns = torch.cuda.Stream()", "unjoined stream"),
        ("y = memo[x.data_ptr()]", "memoised result"),
        ("y = memo.get((x.shape, id(x)))", "memoised result"),
        ("if x.data_ptr() == last: pass", "memoised result"),
        ("if x.data_ptr() == last.data_ptr(): pass", "memoised result"),
        ("key = x.data_ptr()\ny = memo[key]", "memoised result"),
        ("key = (x.shape, x.data_ptr())\ny = memo.get(key)", "memoised result"),
        ("def f(x):\n    p = x.data_ptr()\n    return lambda: memo[p]", "memoised result"),
        ("p = id(x)\nkey = p, n\nif key == last: pass", "memoised result"),
        ("if (p := x.data_ptr()) != last: pass", "memoised result"),
        ("key = f'{x.data_ptr()}'\ny = memo[key]", "memoised result"),
        ("delta = x.data_ptr() - base\nif delta == 1: pass", "memoised result"),
        ("y = memo[x.data_ptr() % 512]", "memoised result"),
        ("y = memo[x._version % 256]", "memoised result"),
        ("y = memo[id(x) % 16]", "memoised result"),
        ("if x.data_ptr() - last == 0: pass", "memoised result"),
        ("if 0 != x.data_ptr() == last: pass", "memoised result"),
        ("if memo[x.data_ptr()] == 0: pass", "memoised result"),
        ("y = memo[x.data_ptr() % 257]", "memoised result"),
        ("y = memo[x.data_ptr() % n]", "memoised result"),
        ("y = memo[x.data_ptr() & -16]", "memoised result"),
        ("y = memo[(x.data_ptr() >> 9) % 256]", "memoised result"),
        ("y = memo[x.data_ptr() // 4096 & 255]", "memoised result"),
        ("y = memo[x.data_ptr() % 16, x.data_ptr()]", "memoised result"),
        ("y = memo[hash(x.data_ptr()) % 256]", "memoised result"),
        ("if x.data_ptr() % 16 == 0 and x.data_ptr() == last: pass", "memoised result"),
        ("try:\n    f()\nexcept:\n    pass", "swallowed exception"),
        ("try:\n    f()\nexcept Exception:\n    y = x @ x", "swallowed exception"),
        ("import torch\ndef kernel(a, b): return torch.matmul(a, b)", "library fallback"),
        ("def kernel(a, b): return a @ b", "library fallback"),
        ("import torch.nn.functional as F\nF.conv2d(x, w)", "library fallback"),
        ("import triton\n@triton.jit\ndef f(x): pass", "library fallback"),
        ("import torch\ntorch.library.Library('aten', 'IMPL')", "dispatcher override"),
        ("cuda.cudaDeviceSetLimit(6, 1)", "L2 persistence"),
        ("f = 'cudaDeviceSetLimit'", "L2 persistence"),
    ],
)
def test_hints(source, trick):
    assert (trick, False) in look(source)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ns = torch.cuda.Stream()\ns.wait_stream(torch.cuda.current_stream())",
        "try:\n    f()\nexcept ValueError:\n    pass",
        "try:\n    f()\nexcept Exception:\n    raise",
        "n = 0\ndef kernel(x):\n    n = 0\n    n += 1\n    return n < 3",
        "import triton\n@triton.jit\ndef f(x): pass\ndef kernel(x): f[(1,)](x)",
        "memo[x.shape] = y",
        "aligned = x.data_ptr() % 16 == 0 and row * size % 16 == 0",
        "if (x.data_ptr() | y.data_ptr()) & 15: pass",
        "if (x.data_ptr() + offset * x.element_size()) % 128 != 0: pass",
        "if x.data_ptr() == 0: pass",
        "p = x.data_ptr()\nif p == 0 or p % 16: pass",
        "aligned = x.data_ptr() % 16 == 0\ny = ways[aligned]",
        "def f(x):\n    p = x.data_ptr()\n    return p\n\ndef g(p):\n    return table[p]",
        "args = (x.data_ptr(), n)\nlaunch(args[0], *args)",
        "out = launch(x.data_ptr())\nif out == 3: pass",
        "grid = grids[x.data_ptr() % 16 == 0]",
        "import re\nre.compile('x')\nmodel.eval()",
        "for time in range(3): print(time)",
    ],
)
def test_nothing_is_found(source):
    assert look(source) == set()


def test_findings_name_the_line_in_their_order():
    source = "import os\nimport time\n\nos.fork()\ntime.time = None\n"
    results = suspicions(source, "mine.py")
    assert [f.evidence for f in results] == [
        "mine.py:4 calls os.fork",
        "mine.py:5 replaces time.time",
    ]


def test_a_file_that_is_no_python():
    with pytest.raises(SyntaxError):
        suspicions("def", "mine.py")


PROBLEM = """
import torch
import torch.nn.functional as F

def helper(x):
    return torch.softmax(x, -1)

def reference(x):
    return F.relu(helper(x) @ x)

def inputs(device="cuda"):
    return (torch.randn(4, 4, device=device),)
"""


def test_what_only_the_problem_uses_is_no_hint():
    assert look(PROBLEM + "\ndef kernel(x): return mine(x)") == set()
    model = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x @ x\n"
    assert look(model + "class ModelNew(torch.nn.Module):\n    pass") == set()


@pytest.mark.parametrize(
    "kernel",
    [
        "def kernel(x): return helper(x)",  # shared with the reference
        "def kernel(x): return reference(x)",
        "def step(x): return torch.mm(x, x)\ndef kernel(x): return step(x)",
        "kernel = reference",
        "def unused(x): return torch.mm(x, x)\ndef kernel(x): return x",
    ],
)
def test_what_the_candidate_uses_is_a_hint(kernel):
    assert ("library fallback", False) in look(PROBLEM + "\n" + kernel)


def test_a_proof_counts_in_the_problem_too():
    hidden = "\ndef check(got, want):\n    torch.cuda.Event.elapsed_time = None\n    return True"
    assert ("patched function", True) in look(PROBLEM + hidden + "\ndef kernel(x): return x")
