"""What a base install says: each command in a child process that has no library of an extra."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import solkit
from solkit import extras
from solkit.cli import app
from solkit.errors import MissingLibraryError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]

COMMANDS = {
    "init": ("{bare} --out {out}.py", None),
    "score": ("{kernel} --device h100 --html {out}.html", "report"),
    "watch": ("{out}", None),
    "compare": ("{out} {out}", None),
    "diff": ("{out} --device h100,b200", None),
    "report": ("{json}", None),
    "bound": ("{out}", None),
    "judge": ("{json}", None),
    "profile": ("{out}", None),
    "record": ("{program}", None),
    "precompile": ("{out}", None),
    "apply": ("{out}", None),
    "run": ("--apply {out} -- {out}", None),
    "rank": ("{out}", None),
    "tune": ("{kernel} --device h100", "tune"),
    "evolve": ("{kernel} --device h100 --recorded {json}", "evolve"),
    "inductor": ("{out}", None),
    "replay": ("{json}", "tune"),
    "emit": ("{kernel} --format vllm --out {out}", "tune"),
    "batch": ("{kernel} --device h100", "tune"),
    "serve": ("--recorded {json} --device h100 --state {out}", "serve"),
    "mcp": ("--recorded {json} --device h100", "mcp"),
    "train": ("h100 --out {out}", "train"),
    "evaluate": ("h100", "train"),
    "devices": ("", None),
    "standby run": ("--on cuda:99", None),
    "standby status": ("", None),
    "standby stop": ("", None),
    "calibrate": ("--device nothing", None),
    "data info": ("h100", "data"),
    "data query": ("h100 count", "data"),
    "data import": ("{json} {out}", None),
    "data export": ("h100 {out}.csv --to t4", "data"),
    "data merge": ("{out} h100", "data"),
    "data verify": ("h100", "data"),
    "data collect": ("softmax --device nothing", None),
    "data refill": ("h100 --out {out}", "data"),
    "data tuned": ("", "tune"),
}
"""Arguments of each command, and the extra that it names; ``None`` if it gets past its imports."""

CHILD = """
import functools, json, sys
import typer.testing
from typer.testing import CliRunner

typer.testing._get_command = functools.cache(typer.testing._get_command)  # it takes most of a call

class Without:
    def __init__(self, finder, hidden):
        self.finder, self.hidden = finder, hidden
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.hidden:
            return None
        return self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)

asked = json.load(sys.stdin)
sys.meta_path[:] = [Without(each, set(asked["hidden"])) for each in sys.meta_path]
for name in [name for name in sys.modules if name.partition(".")[0] in asked["hidden"]]:
    del sys.modules[name]
from solkit.cli import app
told = {}
for command, words in asked["commands"].items():
    found = CliRunner().invoke(app, [*command.split(), *words])
    told[command] = found.exit_code, found.output[-400:], repr(found.exception)
print(json.dumps(told), file=sys.__stdout__)
"""


def commands(group, prefix=""):
    """The names of all commands."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield prefix + name


@pytest.fixture(scope="module")
def command_results(tmp_path_factory):
    """Exit code, output and exception of each command without any extra."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "recorded.json").write_text("{}", encoding="utf-8")
    (folder / "program.py").touch()
    names = {
        "kernel": str(ROOT / "examples" / "softmax.py"),
        "bare": str(ROOT / "examples" / "tutorial" / "bare.py"),
        "json": str(folder / "recorded.json"),
        "program": str(folder / "program.py"),
        "out": str(folder / "out"),
    }
    words = {name: item.format(**names).split() for name, (item, _) in COMMANDS.items()}
    hidden = sorted(set().union(*map(extras.modules_of, extras.EXTRAS)))
    result = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps({"hidden": hidden, "commands": words}),
        capture_output=True, text=True, check=True, cwd=folder,
    )  # fmt: skip
    return json.loads(result.stdout.splitlines()[-1])


def test_each_command_is_tried():
    import typer.main

    assert set(commands(typer.main.get_command(app))) == COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_base_install_names_the_extra_that_a_command_needs(command_results, command):
    code, output, exception = command_results[command]
    extra = COMMANDS[command][1]
    assert "ModuleNotFoundError" not in output + exception
    if extra is None:
        assert "pip install" not in output
        assert code in ((1,) if command == "standby status" else (0, 2)), output  # none runs
    else:
        assert f"pip install 'solkit[{extra}]'" in output.replace("\n", " ")
        assert "this needs" in output
        assert code == 2


def declared(extra, groups):
    """The distributions of an extra in pyproject.toml, those of its extras as well."""
    results = set()
    for item in groups[extra]:
        name = item.partition(">=")[0].partition("[")
        inner = name[2].partition("]")[0] if name[0] == "solkit" else None
        results |= declared(inner, groups) if inner else {name[0]}
    return results


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_the_table_of_extras_is_that_of_pyproject(extra):
    path = ROOT / "pyproject.toml"
    if not path.exists():
        pytest.skip("installed from a wheel")
    groups = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    spelled = {"xgboost-cpu": "xgboost", "cuda-tile": "cuda.tile"}
    spelled["nvidia-cutlass-dsl"] = "cutlass"
    besides = {"sqlalchemy", "anyio", "starlette"}  # which come with one of the others
    expected = {spelled.get(name, name) for name in declared(extra, groups)}
    assert extras.modules_of(extra) - besides == expected


def test_a_module_of_the_command_s_extra_is_named_with_that_extra():
    assert str(extras.missing("scipy.linalg", "tune")) == (
        "this needs scipy: pip install 'solkit[tune]'"
    )
    assert str(extras.missing("polars", "tune")) == "this needs polars: pip install 'solkit[data]'"
    named = pytest.raises(MissingLibraryError, match=r"xgboost: pip install 'solkit\[train\]'")
    with named, extras.needed("train"):
        raise ModuleNotFoundError("no", name="xgboost")
    with pytest.raises(ModuleNotFoundError, match="mine"), extras.needed("train"):
        raise ModuleNotFoundError("mine", name="a_module_of_mine")


def pages(command, name="solkit"):
    """The help page of a command and of all within it."""
    from typer.testing import CliRunner

    yield (
        name,
        CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})
        .invoke(app, [*name.split()[1:], "--help"])
        .output,
    )
    for inner, item in getattr(command, "commands", {}).items():
        yield from pages(item, f"{name} {inner}")


@pytest.mark.slow
def test_help_shows_brackets():
    import typer.main

    shown = dict(pages(typer.main.get_command(app)))
    assert "pip install 'solkit[train]'" in shown["solkit train"]
    assert "pip install 'solkit[train]'" in shown["solkit evaluate"]
    assert all("'solkit'" not in page for page in shown.values())


def test_dir_lists_the_names_that_are_imported_late():
    assert set(solkit.__all__) <= set(dir(solkit))
    assert "__version__" in dir(solkit)
