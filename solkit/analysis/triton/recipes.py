"""Launches of a launcher at any configuration, from as few runs as possible.

Running a launcher on fake tensors takes milliseconds, and most do the same for every configuration,
with other numbers. One run is recorded with stand-ins for the parameters
(`solkit.adapters.recipes`): its steps give the launches of every configuration at which they hold.
Elsewhere the launcher runs again and is recorded again.

A recipe is compared with a real run when it is new, and at its 1st, 2nd, 4th, 8th ... use. If it
differs, the launcher cannot be followed (it keeps state, for example) and is run each time. Needs a
child process, as `capture` does.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from solkit.adapters import fake_cuda, launch_recording
from solkit.adapters.launch_recording import Argument, CapturedLaunch, TensorArgument
from solkit.adapters.launch_records import roles_of_storages, with_records
from solkit.adapters.recipes import Steps, following_torch, keeping_line, make_stand_in
from solkit.analysis import cuda, library
from solkit.analysis.graphs import seeing_graphs
from solkit.analysis.triton.capture import Captured, capture, described, storages_of
from solkit.core import Value
from solkit.core.parsing import syntax_tree
from solkit.kernelfiles import Workload

_MOST_RECIPES = 32
"""Limit for one launcher at one shape; one that needs more is run each time."""

Params = Mapping[str, Value]


@dataclass
class _Recipe:
    """One recorded run.

    Attributes:
        steps: of the run.
        guesses: made in it.
        names: of the parameters.
        inputs: storage of each input.
        uses: answers that it gave.
    """

    steps: Steps
    guesses: tuple[str, ...]
    names: frozenset[str]
    inputs: tuple[int, ...] = ()
    uses: int = 0


class Recipes:
    """The launches of one candidate at one shape.

    Args:
        make: a workload, with fresh inputs, for some parameters.

    Attributes:
        recipes: how many recorded runs are in use.
        runs: how often the launcher ran, for recordings and comparisons too.
        why: why the launcher is run each time; empty if it is not.
    """

    def __init__(self, make: Callable[[Params], Workload]) -> None:
        self.runs = 0
        self.why = ""
        self._make = make
        self._recipes: list[_Recipe] = []
        self._fixed: frozenset[str] = frozenset()  # what is never followed
        self._outputs = ""  # of the steps that were done last
        self._output_storages: tuple[int, ...] = ()  # likewise

    @property
    def recipes(self) -> int:
        """Number of recorded runs."""
        return len(self._recipes)

    def capture(self, params: Params, extensions: cuda.CudaRecording | None = None) -> Captured:
        """Return what the candidate launches, the same as `solkit.analysis.triton.capture.capture`.

        Args:
            params: of the candidate.
            extensions: gets its launches of CUDA C++.

        Raises:
            CaptureError, ParamsError: as `capture` does.
        """
        recipe, captured = self._replayed(params)
        if recipe is not None and captured is not None:
            return self._trusted(recipe, captured, params)
        captured = self._run(params, extensions)
        if not self.why and captured.is_whole:
            self._learn(params, captured)
        return captured

    def replay(self, params: Params) -> Captured | None:
        """Return the answer of a recorded run, without a comparison; ``None`` if none holds."""
        return self._replayed(params)[1]

    def _replayed(self, params: Params) -> tuple[_Recipe | None, Captured | None]:
        for recipe in self._recipes:
            captured = self._again(recipe, params)
            if captured is not None:
                return recipe, captured
        return None, None

    def _run(self, params: Params, extensions: cuda.CudaRecording | None = None) -> Captured:
        return capture(self._workload(params), params, extensions=extensions)

    def _workload(self, params: Params) -> Workload:
        """Make the same inputs each time: contents of index tensors are part of a launch."""
        self.runs += 1
        torch.manual_seed(0)
        return self._make(params).with_destinations()

    def _trusted(self, recipe: _Recipe, captured: Captured, params: Params) -> Captured:
        """Return a recipe's answer, unless a comparison is due and a run differs."""
        recipe.uses += 1
        if recipe.uses & (recipe.uses - 1):
            return captured
        real = self._run(params)
        if not are_captures_equal(captured, real):
            self._give_up("a recorded run gave other launches than a run")
        return real

    def _give_up(self, why: str) -> None:
        self.why = why
        self._recipes.clear()

    # -------------------------------------------------------------------------------- recording

    def _learn(self, params: Params, real: Captured) -> None:
        """Record a run, if possible, and keep it if it gives what was seen."""
        if len(self._recipes) >= _MOST_RECIPES:
            self.why = f"more than {_MOST_RECIPES} runs would have to be recorded"
            return
        recipe = self._first_recipe(params)
        if recipe is None:
            return
        captured = self._again(recipe, params)
        if captured is None or not are_captures_equal(captured, real):
            self._give_up("a recorded run gave other launches than the same run")
            return
        self._recipes.append(recipe)

    def _first_recipe(self, params: Params) -> _Recipe | None:
        """Return a recorded run with as few parameters fixed as it takes."""
        tried: set[frozenset[str]] = set()
        waiting = [self._fixed, *_guesses_at_culprits(params)]
        while waiting:
            fixed = waiting.pop(0)
            if fixed in tried:
                continue
            tried.add(fixed)
            recipe, culprits, why = self._recorded(params, fixed)
            if recipe is not None:
                self._fixed = fixed
                return recipe
            waiting = [fixed | culprits] if culprits else waiting
        self._give_up(why)
        return None

    def _recorded(
        self, params: Params, fixed: frozenset[str]
    ) -> tuple[_Recipe | None, frozenset[str], str]:
        """Return a recipe; else the parameters in its way, where they are known, and the reason."""
        workload = self._workload(params)
        function = workload.kernel if isinstance(workload.kernel, partial) else None
        if function is None:
            return None, frozenset(), "its parameters are not bound as keywords"
        if why := _unsound_reason(function.func, params):
            return None, frozenset(), why
        steps = Steps(params, make_stand_in, fixed, keeping_line)
        stand_ins = steps.mapping(dict)
        keywords = dict(function.keywords)
        for name in keywords.keys() & params.keys():
            if keywords[name] is params[name]:
                keywords[name] = stand_ins[name]
            else:  # a dtype, of its name
                steps.pin_values(stand_ins[name])
        repeatable = replace(workload, kernel=partial(function.func, *function.args, **keywords))
        try:
            guesses = self._record(repeatable, params, steps)
        except Exception as error:  # what takes no stand-in may raise anything
            return None, frozenset(steps.culprits), f"{type(error).__name__}: {error}"
        finally:
            steps.close()
        if steps.fault or steps.culprits:
            return None, frozenset(steps.culprits), steps.fault
        inputs = tuple(storages_of(workload.tensors()))
        return _Recipe(steps, guesses, frozenset(params), inputs), frozenset(), ""

    def _record(self, workload: Workload, params: Params, steps: Steps) -> tuple[str, ...]:
        with ExitStack() as stack:
            stack.enter_context(fake_cuda.fake_tensors())
            guesses = stack.enter_context(fake_cuda.watching_guesses())
            seen = stack.enter_context(launch_recording.recording_launches(params, steps))
            stack.enter_context(library.recording(lambda: len(seen.launches), steps))
            extensions = stack.enter_context(cuda.recording())
            stack.enter_context(seeing_graphs(params))
            stack.enter_context(following_torch(steps))
            outputs = workload.run_kernel()
            steps.call_bare(self._describe, (outputs,))
        if extensions.launches:
            steps.mark_unrepeatable("it launches CUDA C++")
        return tuple(guesses)

    def _describe(self, outputs: Sequence[torch.Tensor]) -> None:
        self._outputs = described(outputs)
        self._output_storages = tuple(storages_of(outputs))

    def _again(self, recipe: _Recipe, params: Params) -> Captured | None:
        """Return a recipe's answer; ``None`` if it does not hold."""
        if params.keys() != recipe.names:
            return None
        makes = recipe.steps.makes_objects
        tensors = fake_cuda.fake_tensors() if makes else nullcontext()
        watching = library.recording if makes else library.repeating
        with (
            tensors,
            launch_recording.recording_launches(params) as seen,
            watching(lambda: len(seen.launches)) as operators,
        ):
            try:
                if not recipe.steps.repeat_with(params):
                    return None
            except Exception:  # the run that follows raises it again
                return None
        notes = (*seen.notes(), *recipe.guesses)
        roles = roles_of_storages(recipe.inputs, self._output_storages)
        launches = with_records(seen.launches, roles)
        return Captured(launches, notes, self._outputs, operators.launches)


def _guesses_at_culprits(params: Params) -> list[frozenset[str]]:
    """List parameters to fix if nothing says which: words, or one of the others."""
    words = frozenset(name for name, value in params.items() if isinstance(value, str))
    return [words, *(words | {name} for name in params), frozenset(params)]


# ---------------------------------------------------------------------------------- soundness


def _unsound_reason(launcher: Callable[..., Any], followed: Collection[str]) -> str:
    """Say why a launcher cannot be followed: it, or a function it calls, looks at identities.

    Args:
        launcher: gets stand-ins for some of its parameters.
        followed: their names.
    """
    module = inspect.getmodule(launcher)
    try:
        tree = syntax_tree(inspect.getsource(module or launcher))
    except (OSError, TypeError, SyntaxError):
        return "its source is not known"
    parts = _reached_definitions(tree, launcher.__name__)
    sight = _Sight(getattr(module, "torch", None) is torch, _inputs(parts, launcher, followed))
    looks = (sight.look_at(node) for part in parts for node in ast.walk(part))
    return next(filter(None, looks), "")


def _inputs(
    parts: Sequence[ast.stmt], launcher: Callable[..., Any], followed: Collection[str]
) -> frozenset[str]:
    """Return the parameters of a launcher that hold what was handed to it, and no stand-in.

    `parts` are the launcher's definition, and those of what it calls.
    """
    name = launcher.__name__
    definition = next((part for part in parts if getattr(part, "name", "") == name), None)
    nodes = [node for part in parts for node in ast.walk(part)]
    is_called = any(isinstance(node, ast.Name) and node.id == name for node in nodes)
    if not isinstance(definition, ast.FunctionDef) or is_called:
        return frozenset()
    own = {node.arg for node in ast.walk(definition.args) if isinstance(node, ast.arg)}
    inner = [node for statement in definition.body for node in ast.walk(statement)]
    bound = {node.arg for node in inner if isinstance(node, ast.arg)}
    bound |= {n.id for n in inner if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    names = ("name", "asname", "rest")  # of exceptions, imports and patterns
    bound |= {str(getattr(node, field, "")) for node in inner for field in names}
    return frozenset(own - bound - set(followed))


@dataclass(frozen=True)
class _Sight:
    """Inspection of what a launcher looks at: a stand-in is another object than its value.

    Attributes:
        has_torch: whether ``torch`` is PyTorch in the launcher's module.
        inputs: names that hold what was handed to the launcher.
    """

    has_torch: bool
    inputs: frozenset[str]

    def look_at(self, node: ast.AST) -> str:
        """Say what a node does that gives a stand-in another answer; empty for nothing."""
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            if any(map(self._tells_apart, node.ops, operands, operands[1:])):
                return f"line {node.lineno} compares by `is`"
        if isinstance(node, ast.MatchSingleton) and node.value is not None:
            return "a case of a match compares by `is`"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            is_identity = node.func.id in ("type", "id") and len(node.args) == 1
            if is_identity and not self._is_input(node.args[0]):
                return f"line {node.lineno} calls {node.func.id}()"
        return ""

    def _tells_apart(self, operator: ast.cmpop, lhs: ast.expr, rhs: ast.expr) -> bool:
        """Tell whether a comparison of identity may differ for a stand-in and its value."""
        if not isinstance(operator, (ast.Is, ast.IsNot)):
            return False
        if self._is_no_plain(lhs) or self._is_no_plain(rhs):
            return False  # a stand-in is for a number or a string
        return not all(isinstance(x, ast.Constant) or self._is_input(x) for x in (lhs, rhs))

    def _is_no_plain(self, node: ast.expr) -> bool:
        """Tell whether an expression is neither a plain value nor a stand-in for one."""
        if isinstance(node, ast.Constant):
            return node.value is None
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id == "type"
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return False
        constant = getattr(torch, node.attr, 0)  # such as a dtype or a layout
        return self.has_torch and node.value.id == "torch" and type(constant).__module__ == "torch"

    def _is_input(self, node: ast.expr) -> bool:
        """Tell whether an expression is a part of what was handed to the launcher."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
                return False
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.inputs


def _reached_definitions(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Return the definitions of a file that one uses, without kernels, which are compiled."""
    defined = {
        definition.name: definition
        for definition in tree.body
        if isinstance(definition, (ast.FunctionDef, ast.ClassDef))
        and not any("jit" in ast.unparse(decorator) for decorator in definition.decorator_list)
    }
    reached, queue = {name}, [name]
    while queue:
        body = ast.walk(defined.get(queue.pop(), ast.Pass()))
        called = {node.id for node in body if isinstance(node, ast.Name)} & defined.keys()
        queue.extend(called - reached)
        reached |= called
    return [defined[name_used] for name_used in reached & defined.keys()]


def are_captures_equal(a: Captured, b: Captured) -> bool:
    """Tell whether two captures are equal, wherever their tensors are."""
    if (a.notes, a.outputs, a.library) != (b.notes, b.outputs, b.library):
        return False
    if len(a.launches) != len(b.launches):
        return False
    storages: tuple[dict[int, int], dict[int, int]] = ({}, {})
    return all(_are_equal(x, y, storages) for x, y in zip(a.launches, b.launches))


def _are_equal(
    a: CapturedLaunch, b: CapturedLaunch, storages: tuple[dict[int, int], dict[int, int]]
) -> bool:
    whole = ("function", "signature", "constexprs", "attrs", "options")
    if any(getattr(a.kernel, name) != getattr(b.kernel, name) for name in whole):
        return False
    if (
        _with_constant_types(a.launch) != _with_constant_types(b.launch)
        or a.arguments.keys() != b.arguments.keys()
    ):
        return False
    return all(
        _are_arguments_equal(x, b.arguments[name], storages) for name, x in a.arguments.items()
    )


def _with_constant_types(launch: Any) -> tuple[Any, ...]:
    """Return a launch with the types of its constants: 1 and True differ."""
    return launch, {name: type(value) for name, value in launch.constants.items()}


def _are_arguments_equal(
    a: Argument, b: Argument, storages: tuple[dict[int, int], dict[int, int]]
) -> bool:
    if not (isinstance(a, TensorArgument) and isinstance(b, TensorArgument)):
        return type(a) is type(b) and a == b
    numbers = [seen.setdefault(x.storage, len(seen)) for x, seen in zip((a, b), storages)]
    plain = [replace(x, storage=n, contents=None) for x, n in zip((a, b), numbers)]
    return vars(plain[0]) == vars(plain[1]) and _same_contents(a.contents, b.contents)


def _same_contents(a: npt.NDArray[Any] | None, b: npt.NDArray[Any] | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))
