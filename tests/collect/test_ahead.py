"""Work on other cores, with processes that are fake."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from solkit.collect import ahead
from solkit.collect.ahead import Ahead, Compiled
from solkit.datasets.record import TimedDemand, TimedLaunch
from solkit.errors import WorkerError
from solkit.roofline import devices

LAUNCH = {"name": "f", "grid": [4, 1, 1], "demand": {"load_bytes": 64, "operations": {"fp32": 8}}}
LAUNCHES = (TimedLaunch("f", (4, 1, 1), demand=TimedDemand(load_bytes=64, operations={"fp32": 8})),)
ENDS = {"dies": -11, "takes long": -signal.SIGALRM, "hangs": None}


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
        self.forks, self.asked = 0, []

    def fork(self, function, given, *, env, output):
        assert (env["CUDA_VISIBLE_DEVICES"], env["A"]) == ("", "1")
        self.forks += 1
        answer = Path(given[-1])
        if function.endswith(":survey_space"):
            if given[0] in SHAPES:
                answer.write_text(json.dumps(SHAPES[given[0]]))
                return FakeFork(0)
            if given[0] == "good.py":
                answer.write_text(json.dumps([{"shape": {"N": 8}}]))
                return FakeFork(0)
            os.write(output, b"ImportError: no such module")
            return FakeFork(1)
        with answer.open("a") as file:
            for params in given[2]:
                self.asked.append((given[1], params["DO"], given[4]))
                if params["DO"] in ENDS:
                    file.write('[0.1, "cut o')
                    os.write(output, b"ptxas said no")
                    return FakeFork(ENDS[params["DO"]])
                file.write(json.dumps([0.5, params["DO"], [LAUNCH]]) + "\n")
        return FakeFork(0)

    def close(self):
        pass


class FakeFork:
    def __init__(self, ended):
        self.wait, self.end = lambda _: ended, lambda: None


@pytest.fixture
def working(monkeypatch):
    server = FakeServer()
    monkeypatch.setattr(ahead, "ForkServer", lambda *_: server)
    with Ahead(devices.find("h100"), 2, {"A": "1"}, limit_s=3.0) as working:
        yield working


def compiled(working, *does):
    return working.compiled("good.py", {"N": 8}, [{"DO": do} for do in does]).result(300)


def test_what_compiling_came_to(working):
    assert compiled(working, "", "too big") == [
        Compiled(0.5, "", LAUNCHES),
        Compiled(0.5, "too big", LAUNCHES),
    ]


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("dies", "ended its process: exit code -11. ptxas said no"),
        ("takes long", "took over 3 s"),
        ("hangs", "it took over "),
    ],
)
def test_one_that_ends_its_process_costs_no_other(working, what, told):
    first, second, third = compiled(working, "", what, "")
    assert first == third == Compiled(0.5, "", LAUNCHES)
    assert told in second.error


def test_a_survey(working):
    assert working.space("good.py").result(300) == [{"shape": {"N": 8}}]
    with pytest.raises(WorkerError, match=r"bad\.py cannot be surveyed: .*no such module"):
        working.space("bad.py").result(300)


def test_an_extension_is_built_before_anything_else_is_compiled(working):
    assert working.space("cuda.py", True).result(300) == SHAPES["cuda.py"]
    assert working._server.asked == [(LARGE, "", 300.0)]  # with minutes of time
    assert working.compiled("cuda.py", LARGE, ANY).result(300) == [
        Compiled(0.5, "", LAUNCHES),
        Compiled(0.5, "too big", LAUNCHES),
    ]
    assert working.space("nothing.py", True).result(300) == SHAPES["nothing.py"]


def test_an_extension_that_does_not_build_is_not_built_again(working):
    small, large = working.space("broken.py", True).result(300)
    assert (len(small["valid"]), len(large["valid"])) == (1, 1)  # which say why
    (told,) = working.compiled("broken.py", LARGE, large["valid"]).result(300)
    assert told.error == "cuda.cu(3): error: no such type"
    assert len(working._server.asked) == 1


def test_what_is_left_when_it_is_closed_starts_nothing_anew(working):
    working.__exit__()
    with pytest.raises(WorkerError, match="has ended"):  # as a thread that is still at it would
        working._compile("good.py", {"N": 8}, [{"DO": ""}])
    assert working._server.forks == 0
