import importlib
import json
import os
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
from cli_reports import H100, NOT_MEASURED, report_of, solkit

from solkit import cli
from solkit.core import (
    MeasureSettings,
    Score,
    Verdict,
)
from solkit.errors import (
    InputError,
    ParamsError,
    ShapeError,
    UnknownDeviceError,
    UnsupportedError,
    WorkerError,
)

ROOT = Path(__file__).resolve().parents[2]


def scored(sol_score, verdict=Verdict.CORRECT):
    return replace(NOT_MEASURED, verdict=verdict, score=Score(2.0, None, sol_score, 0.5))


@pytest.fixture
def pipeline(monkeypatch):
    """`solkit.pipeline` with a `score` that notes its arguments and gives what a test wants."""
    fake = types.ModuleType("solkit.pipeline")
    fake.report, fake.asked = report_of(NOT_MEASURED), []

    def score(*args, **kwargs):
        fake.asked.append((args, kwargs))
        if isinstance(fake.report, BaseException):
            raise fake.report
        return fake.report

    for module in ("best_algorithm", "hinting"):  # they must not be looked for in the fake
        importlib.import_module(f"solkit.pipeline.{module}")
    fake.score = score
    monkeypatch.setitem(sys.modules, "solkit.pipeline", fake)
    monkeypatch.setattr(sys.modules["solkit"], "pipeline", fake, raising=False)
    return fake


# ----------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("M=4096,N=1000", {"M": 4096, "N": 1000}),
        (" M = -4 , p=0.5,q=1e-3", {"M": -4, "p": 0.5, "q": 1e-3}),
        ("N=1e6,K=2E+3,p=1e6.5,q=1.5e6", {"N": 10**6, "K": 2000, "p": "1e6.5", "q": 1.5e6}),
        ("a=true,b=False,c=None", {"a": True, "b": False, "c": None}),
        ("dtype=bfloat16,other=torch.float16", {"dtype": "bfloat16", "other": "float16"}),
        ("mode=tf32x3", {"mode": "tf32x3"}),
    ],
)
def test_settings(text, settings):
    parsed = cli.parse_settings(text, "--shape")
    assert [(k, type(v), v) for k, v in parsed.items()] == [
        (k, type(v), v) for k, v in settings.items()
    ]


@pytest.mark.parametrize("text", ["", "M", "M=", "=4", "M=1,,N=2", "M==1", "4=M", "a b=1", "M=1,"])
def test_malformed_settings_are_named(text):
    with pytest.raises(ShapeError, match=r"--shape: .* is not NAME=VALUE") as error:
        cli.parse_settings(text, "--shape")
    assert repr(text) in str(error.value)


def test_a_name_given_twice():
    with pytest.raises(ParamsError, match="--params: BLOCK is given twice in 'BLOCK=1,BLOCK=2'"):
        cli.parse_settings("BLOCK=1,BLOCK=2", "--params")


# ------------------------------------------------------------------------- solkit score


def test_defaults_reach_the_pipeline(pipeline):
    assert solkit("score", "softmax.py").exit_code == 0
    assert pipeline.asked == [
        (
            ("softmax.py",),
            {
                "device": None, "reference": None, "shapes": None, "params": None,
                "settings": MeasureSettings(), "measure": None,
            },
        )
    ]  # fmt: skip


def test_flags_reach_the_pipeline(pipeline):
    outcome = solkit(
        "score", "new.py", "--device", "h100", "--reference", "old.py", "--shape", "M=1,N=2",
        "--shape", "M=3", "--params", "BLOCK=64,num_warps=4", "--params", "fast=true",
        "--precision", "tf32", "--no-measure", "--on", "cuda:1", "--time-limit", "9",
        "--study-limit", "20", "--log", "runs.jsonl", "--protocol", "warm",
        "--sandbox", "--custom-kernel", "--ncu",
    )  # fmt: skip
    assert outcome.exit_code == 0
    assert pipeline.asked == [
        (
            ("new.py",),
            {
                "device": "h100", "reference": "old.py", "shapes": [{"M": 1, "N": 2}, {"M": 3}],
                "params": {"BLOCK": 64, "num_warps": 4, "fast": True},
                "settings": MeasureSettings(
                    on="cuda:1", precision="tf32", time_limit_s=9.0, study_limit_s=20.0,
                    log="runs.jsonl", protocol="warm", sandbox=True, custom_kernel=True,
                    counters=True,
                ),
                "measure": False,
            },
        )
    ]  # fmt: skip


def test_what_follows_two_dashes_is_no_option(pipeline):
    solkit("score", "--", "--trace", "softmax.py")
    assert [args for args, _ in pipeline.asked] == [("--trace",), ("softmax.py",)]


@pytest.mark.quick("solkit score x.py --protocol warm-expected2")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("solkit sc", ["score"]),
        ("solkit score x.py --pro", ["--protocol"]),
        ("solkit score x.py --protocol warm", ["warm", "warm-graph"]),
        ("solkit bound x.py --device h100-", ["h100-sxm"]),
    ],
)
def test_a_shell_completes(words, expected):
    """As bash asks, through the script that --install-completion writes."""
    env = {"_SOLKIT_COMPLETE": "complete_bash", "COMP_WORDS": words}
    env["COMP_CWORD"] = str(words.count(" "))
    done = run("-m", "solkit", env=env)
    assert set(expected) <= set(done.stdout.split()), done.stderr


def test_measuring_can_be_demanded(pipeline):
    solkit("score", "softmax.py", "--measure")
    assert pipeline.asked[0][1]["measure"] is True


@pytest.mark.usefixtures("pipeline")
def test_the_page_goes_to_stdout():
    outcome = solkit("score", "softmax.py")
    assert "limited by dram" in outcome.stdout
    assert outcome.stderr == ""


@pytest.mark.usefixtures("pipeline")
def test_json_to_stdout_is_alone():
    outcome = solkit("score", "softmax.py", "--json", "-")
    assert json.loads(outcome.stdout)["schema"] == "solkit.score/1"


@pytest.mark.usefixtures("pipeline")
def test_json_to_a_file_comes_with_the_page(tmp_path):
    path = tmp_path / "report.json"
    outcome = solkit("score", "softmax.py", "--json", str(path))
    assert "limited by dram" in outcome.stdout
    assert json.loads(path.read_text())["kernel"]["name"] == "softmax"


def test_json_to_nowhere_is_refused_before_the_work(pipeline, tmp_path):
    for destination in (tmp_path / "absent" / "report.json", tmp_path, "/proc/version"):
        outcome = solkit("score", "softmax.py", "--json", str(destination))
        assert outcome.exit_code == 2
        assert f"--json: cannot write {destination}" in outcome.stderr
    assert pipeline.asked == []


def test_an_earlier_report_outlives_a_failure(pipeline, tmp_path):
    earlier, absent = tmp_path / "earlier.json", tmp_path / "absent.json"
    earlier.write_text("{}")
    pipeline.report = InputError("no")
    for path in (earlier, absent):
        assert solkit("score", "softmax.py", "--json", str(path)).exit_code == 2
    assert earlier.read_text() == "{}"
    assert not absent.exists()


@pytest.mark.parametrize("verbose", [False, True])
def test_verbose_shows_every_shape(pipeline, verbose):
    pipeline.report = report_of(*[scored(0.5)] * 5)
    page = solkit("score", "softmax.py", *["--verbose"][: int(verbose)]).stdout
    assert page.count("limited by dram") == (5 if verbose else 1)


@pytest.mark.slow
def test_what_kernel_files_print_does_not_spoil_the_json(tmp_path):
    """Prints of this process, of a child and of C code, in a real run of the program."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, subprocess, sys, types\n"
        "fake = types.ModuleType('solkit.pipeline')\n"
        "def score(*a, **k):\n"
        "    print('from python'); os.write(1, b'from C\\n')\n"
        "    subprocess.run([sys.executable, '-c', 'print(\"from a child\")'], check=True)\n"
        f"    sys.path.append({str(Path(__file__).parent)!r})\n"
        "    from cli_reports import NOT_MEASURED, report_of\n"
        "    return report_of(NOT_MEASURED)\n"
        "fake.score = score\n"
        "hinting = types.ModuleType('solkit.pipeline.hinting')\n"
        "hinting.hints_for_report = lambda *_: {}\n"
        "sys.modules['solkit.pipeline.hinting'] = hinting\n"
        "planning = types.ModuleType('solkit.pipeline.best_algorithm')\n"
        "planning.with_best = lambda report, *_, **__: report\n"
        "sys.modules['solkit.pipeline.best_algorithm'] = planning\n"
        "import solkit; solkit.pipeline = sys.modules['solkit.pipeline'] = fake\n"
        "from solkit.cli import main; main()\n"
    )
    done = run(str(program), "score", str(program), "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "solkit.score/1"
    for said in ("from python", "from C", "from a child"):
        assert said in done.stderr


# --------------------------------------------------------------------------- exit codes


@pytest.mark.quick(
    "results0-flags0-0", "results4-flags4-0", "results9-flags9-3", "results13-flags13-3"
)
@pytest.mark.parametrize(
    ("results", "flags", "code"),
    [
        ([NOT_MEASURED], [], 0),
        ([scored(0.1)], [], 0),
        ([scored(1.0, Verdict.BEATS_ALGORITHM)], [], 0),
        ([scored(0.9), scored(0.4)], ["--fail-under", "0.5"], 5),
        ([scored(0.9), scored(0.5)], ["--fail-under", "0.5"], 0),
        ([NOT_MEASURED], ["--fail-under", "0.5"], 2),
        ([scored(0.9), NOT_MEASURED], ["--fail-under", "0.5"], 2),
        ([scored(0.9), replace(NOT_MEASURED, verdict=Verdict.WRONG)], ["--fail-under", "0.5"], 3),
        ([replace(NOT_MEASURED, verdict=Verdict.WRONG), scored(1, Verdict.IMPOSSIBLE)], [], 4),
        *(
            ([replace(NOT_MEASURED, verdict=Verdict(name))], [], 3)
            for name in ("wrong", "does_not_compile", "crashed", "timed_out", "out_of_memory")
        ),
    ],
)
def test_exit_code_of_a_report(pipeline, results, flags, code):
    pipeline.report = report_of(*results)
    outcome = solkit("score", "softmax.py", *flags)
    assert outcome.exit_code == code
    assert "softmax" in outcome.stdout  # reported all the same


def test_bad_input_exits_2_without_a_traceback(pipeline):
    pipeline.report = UnknownDeviceError("no GPU 'h99'; near: h100-sxm")
    outcome = solkit("score", "softmax.py", "--device", "h100", "--verbose")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr == "solkit: no GPU 'h99'; near: h100-sxm\n"


@pytest.mark.parametrize("command", ["score", "bound", "tune", "evolve"])
def test_an_unknown_device_is_refused_before_anything_is_loaded(pipeline, command):
    pipeline.report = AssertionError("it was loaded")
    outcome = solkit(command, "softmax.py", "--device", "h99")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("solkit: unknown device 'h99'")


@pytest.mark.quick("arguments1", "arguments3", "arguments5")
@pytest.mark.parametrize(
    "arguments",
    [
        ["score"],
        ["score", "x.py", "--precision", "fp13"],
        ["score", "x.py", "--fail-under", "2"],
        ["score", "x.py", "--time-limit", "0"],
        ["score", "x.py", "--shape", "M:4"],
        ["score", "x.py", "--params", "BLOCK"],
        ["scor", "x.py"],
    ],
)
def test_wrong_usage_exits_2(pipeline, arguments):
    outcome = solkit(*arguments)
    assert outcome.exit_code == 2
    assert outcome.stderr
    assert pipeline.asked == []


@pytest.mark.slow
def test_solkits_own_failures_exit_1(pipeline):
    pipeline.report = ZeroDivisionError("division by zero")
    outcome = solkit("score", "softmax.py")
    assert outcome.exit_code == 1
    assert outcome.stderr == "solkit: ZeroDivisionError: division by zero (--verbose shows where)\n"
    outcome = solkit("score", "softmax.py", "--verbose")
    assert outcome.exit_code == 1
    assert "Traceback" in outcome.stderr
    pipeline.report = WorkerError("the worker died of signal 9")
    outcome = solkit("score", "softmax.py")
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("solkit: the worker died of signal 9")


def test_asking_for_what_this_machine_cannot_do_exits_2(pipeline):
    pipeline.report = UnsupportedError("cannot measure here")
    outcome = solkit("score", "softmax.py", "--measure")
    assert (outcome.exit_code, outcome.stderr) == (2, "solkit: cannot measure here\n")


def test_an_interrupt_exits_130(pipeline):
    pipeline.report = KeyboardInterrupt()
    assert solkit("score", "softmax.py").exit_code == 130


def test_main_leaves_with_the_code(pipeline, monkeypatch, capfd):
    pipeline.report = InputError("no such file: softmax.py")
    monkeypatch.setattr(sys, "argv", ["solkit", "score", "softmax.py"])
    monkeypatch.setattr("signal.signal", lambda *_: None)  # this process ends as before
    with pytest.raises(SystemExit) as outcome:
        cli.main()
    assert outcome.value.code == 2
    assert capfd.readouterr().err == "solkit: no such file: softmax.py\n"


def test_stdout_is_whole_again_after_a_failure(pipeline):
    pipeline.report = InputError("no")
    before = os.fstat(1)
    solkit("score", "softmax.py")
    assert os.path.samestat(before, os.fstat(1))


# ----------------------------------------------------------------------- solkit devices


@pytest.fixture
def machine(monkeypatch):
    """Sets what NVML finds: devices, or an error."""

    def have(result):
        def live_devices():
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr("solkit.roofline.nvml.live_devices", live_devices)

    return have


def test_devices_lists_the_machine_and_the_catalogue(machine):
    machine((replace(H100, source="nvml", notes=("ECC is off.",)),))
    outcome = solkit("devices")
    assert outcome.exit_code == 0
    here, known_value = outcome.stdout.split("Catalogue")
    assert "h100-sxm: ECC is off." in here
    assert "a100-sxm-80gb" in known_value


def test_devices_as_json(machine, tmp_path):
    machine(())
    outcome = solkit("devices", "--json", "-")
    assert json.loads(outcome.stdout)["machine"] == []
    solkit("devices", "--json", str(tmp_path / "devices.json"))
    assert json.loads((tmp_path / "devices.json").read_text()) == json.loads(outcome.stdout)


def test_devices_lists_the_catalogue_where_the_machines_gpu_is_unknown(machine):
    machine(UnknownDeviceError("no GPU 'NVIDIA Z100' in the catalogue"))
    outcome = solkit("devices")
    assert outcome.exit_code == 0
    assert "Z100" in outcome.stderr
    assert "h100-sxm" in outcome.stdout


# ------------------------------------------------------------------------------ the rest


def run(*arguments, env=None):
    inherited = os.environ.get("PYTHONPATH")  # dependencies may lie there
    path = os.pathsep.join([str(ROOT), *([inherited] if inherited else [])])
    environment = os.environ | {"PYTHONPATH": path} | (env or {})
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.quick("arguments2")
@pytest.mark.parametrize("arguments", [["--help"], ["score", "--help"], ["--version"]])
def test_help_and_version_import_nothing_heavy(arguments):
    program = (
        "import sys, contextlib\n"
        f"sys.argv = ['solkit', *{arguments!r}]\n"
        "from solkit.cli import main\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "heavy = {'torch', 'triton', 'xgboost', 'numpy', 'polars', 'solkit.pipeline'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))\n"
    )
    done = run("-c", program)
    assert done.stdout.endswith("heavy: []\n"), done.stdout + done.stderr
    assert "solkit" in done.stdout


def test_python_m_solkit():
    done = run("-m", "solkit", "--help")
    assert done.returncode == 0
    assert "score" in done.stdout
    assert "devices" in done.stdout
