"""The part of a kernel file that a proposal may not touch: what must be computed.

It is made of the problem's definitions (`NAMES`), all that they use at the top level of the file,
and statements that act at import, such as setting a precision. In an answer each of them is as in
the parent, or absent and put back from it.
"""

from __future__ import annotations

import ast
import builtins
import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from solkit.core.syntax import (
    imported_full_names,
    is_main_guard,
    leading_name,
    names_bound_by,
    names_used_by,
)
from solkit.tuner.proposers.untrusted_source import (
    Reason,
    RefusedError,
    parse_untrusted,
    read_untrusted,
)

NAMES = frozenset(
    """
    reference inputs check SHAPES HELD_OUT_SHAPES TOLERANCE OUTPUTS
    Model get_inputs get_init_inputs
    """.split()
)
_MAY_BE_USED = {"Model"}  # a KernelBench candidate may derive from it
_LAUNCH_OF_CANDIDATE = {"constants", "grid", "kernel"}  # the rest of LAUNCH is the problem's
_CONTAINERS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MAKERS = {"list", "dict", "set", "bytearray", "defaultdict", "OrderedDict", "deque", "Counter"}
_MUTATORS = frozenset(
    """
    append extend insert remove pop clear sort reverse update setdefault popitem add discard
    __setitem__ __delitem__ move_to_end fill_ copy_ zero_ set_
    """.split()
)


@dataclass(frozen=True)
class Kept:
    """An answer with the problem in place.

    Attributes:
        source: the whole file.
        tree: of `source`.
        own: its statements that the parent does not have.
    """

    source: str
    tree: ast.Module
    own: tuple[ast.stmt, ...]


class Original:
    """The parent's file, and the file with the problem if that is another.

    Attributes:
        tree: of the parent.
        names: the top-level names of both files.
        imports: what the parent imports, by name.

    Raises:
        RefusedError: they cannot be read.
    """

    def __init__(self, source: str, reference: str | None = None) -> None:
        self._source = unify_line_ends(source)
        self.tree = read_untrusted(self._source)
        self._bound = _top_level_bindings(self.tree)
        other = (
            read_untrusted(unify_line_ends(reference))
            if reference is not None
            else ast.Module([], [])
        )
        self._elsewhere = _top_level_bindings(other)
        self._protected = self._protected_names()
        self.names = set(self._bound) | set(self._elsewhere)
        self.imports = imported_full_names(ast.walk(self.tree))
        self._mutable = {name for name in self._protected if self._is_mutable(name)}
        used = set().union(
            *(names_used_by(s) for n in self._protected for s, _ in self._bound[n]), ()
        )
        self._builtins = {name for name in used - self._bound.keys() if hasattr(builtins, name)}
        self._private = (NAMES - _MAY_BE_USED) & self.names
        self._texts = {ast.dump(statement) for statement in self.tree.body}

    @property
    def is_solution(self) -> bool:
        """True if the parent is a benchmark's solution: it enters at ``run``."""
        return "run" in self._bound and not self.names & (NAMES | {"LAUNCH"})

    def keep(self, source: str) -> Kept:
        """Return the answer with what it lacks of the problem.

        Raises:
            RefusedError: it changes the problem, or cannot be read.
        """
        source, tree = _without_main_guard(source)
        self._compare_bindings(tree)
        whole = self._splice_statements(source, tree)
        tree = tree if whole is source else parse_untrusted(whole)
        own = tuple(statement for statement in tree.body if ast.dump(statement) not in self._texts)
        for statement in own:
            self._check_use(statement)
        return Kept(whole, tree, own)

    def is_unchanged(self, tree: ast.Module) -> bool:
        """Tell whether an answer has the parent's code."""
        mine = [ast.dump(statement) for statement in self.tree.body if not is_main_guard(statement)]
        return sorted(mine) == sorted(map(ast.dump, tree.body))

    def _protected_names(self) -> dict[str, list[str]]:
        """Return the protected names with what binds them."""
        closure: dict[str, list[str]] = {}
        todo = [name for name in NAMES if name in self._bound]
        for statement in self._import_actions():
            todo += names_used_by(statement) & self._bound.keys()
        while todo:
            name = todo.pop()
            if name not in closure:
                closure[name] = _binding_texts(self._bound[name])
                for statement, _ in self._bound[name]:
                    todo += names_used_by(statement) & self._bound.keys()
        return closure

    def _is_mutable(self, name: str) -> bool:
        """Tell whether a name is bound to a list or the like, which any function may change."""
        values = [getattr(statement, "value", None) for statement, _ in self._bound[name]]
        makers = [
            v.func.id for v in values if isinstance(v, ast.Call) and isinstance(v.func, ast.Name)
        ]
        return any(isinstance(v, _CONTAINERS) for v in values) or not _MAKERS.isdisjoint(makers)

    def _import_actions(self) -> Iterator[ast.stmt]:
        """Yield statements that bind nothing and run at import."""
        for statement in self.tree.body[bool(ast.get_docstring(self.tree, clean=False)) :]:
            if not names_bound_by(statement) and not is_main_guard(statement):
                yield statement

    def _compare_bindings(self, tree: ast.Module) -> None:
        bound = _top_level_bindings(tree)
        for name, texts in self._protected.items():
            if name in bound and _binding_texts(bound[name]) != texts:
                line = bound[name][0][0].lineno
                text = f"line {line} changes `{name}`, which belongs to the problem"
                raise RefusedError(Reason.PROBLEM, text)
        for name in sorted(self._builtins & bound.keys()):
            text = f"line {bound[name][0][0].lineno} replaces {name}(), which the problem uses"
            raise RefusedError(Reason.PROBLEM, text)
        for name in (NAMES & bound.keys()) - self._protected.keys():
            if _binding_texts(bound[name]) != _binding_texts(self._elsewhere.get(name, [])):
                text = f"line {bound[name][0][0].lineno} adds `{name}`, which the problem lacks"
                raise RefusedError(Reason.PROBLEM, text)
        self._compare_launch(bound)

    def _compare_launch(self, bound: dict[str, list[tuple[ast.stmt, str]]]) -> None:
        """Check that LAUNCH of a plain Triton module has the problem's inputs and outputs."""
        if "LAUNCH" in bound:
            mine = [_problem_launch(statement) for statement, _ in self._bound.get("LAUNCH", ())]
            theirs = [_problem_launch(statement) for statement, _ in bound["LAUNCH"]]
            if mine != theirs or None in theirs:
                raise RefusedError(Reason.PROBLEM, "LAUNCH changes more than constants and grid")

    def _splice_statements(self, source: str, tree: ast.Module) -> str:
        """Return the source with the protected statements that it lacks, after its docstring."""
        there = {ast.dump(statement) for statement in tree.body}
        bound = _top_level_bindings(tree)
        missing = [
            statement
            for statement in self._protected_statements()
            if not _is_present(statement, there, bound)
        ]
        if "LAUNCH" in self._bound and "LAUNCH" not in bound:
            missing += [statement for statement, _ in self._bound["LAUNCH"]]
        if not missing:
            return source
        missing = self._with_needs(missing)
        lines, text = source.split("\n"), self._source.split("\n")
        parts = [
            "\n".join(text[_first_line(statement) - 1 : statement.end_lineno])
            for statement in missing
        ]
        at = _after_header(tree)
        return "\n".join([*lines[:at], *parts, *lines[at:]])

    def _with_needs(self, missing: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements with those that they use, which the answer may define further down."""
        needed: set[int] = set()
        todo = list(missing)
        while todo:
            statement = todo.pop()
            if id(statement) not in needed:
                needed.add(id(statement))
                names = names_used_by(statement) & self._bound.keys()
                todo += [statement for name in names for statement, _ in self._bound[name]]
        return [statement for statement in self.tree.body if id(statement) in needed]

    def _protected_statements(self) -> list[ast.stmt]:
        """Return the protected statements, in the parent's order."""
        needed = {id(s) for name in self._protected for s, _ in self._bound[name]}
        needed |= {id(s) for s in self._import_actions()}
        return [statement for statement in self.tree.body if id(statement) in needed]

    def _check_use(self, statement: ast.stmt) -> None:
        """Check that nothing of the candidate's writes to the problem, or looks its answers up."""
        nodes = list(ast.walk(statement))
        items = {id(node.value) for node in nodes if isinstance(node, ast.Subscript)}
        for node in nodes:
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                for name in (self._protected.keys() | self._builtins) & {*node.names}:
                    _refuse_use(node, name)
            name = _changed_object(node)
            if name in self._protected and name not in self.imports:  # torch.add() writes nothing
                _refuse_use(node, name)
            used = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ""
            if used in self._private or (used in self._mutable and id(node) not in items):
                _refuse_use(node, used)


def _refuse_use(node: ast.AST, name: str) -> None:
    line = getattr(node, "lineno", 1)
    text = f"line {line} uses or changes `{name}`, which belongs to the problem"
    raise RefusedError(Reason.PROBLEM, text)


def _changed_object(node: ast.AST) -> str:
    """Return the object that an assignment or a call changes in place, by name; empty if none."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return leading_name(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return leading_name(node.func) if node.func.attr in _MUTATORS else ""
    return ""


def unify_line_ends(source: str) -> str:
    """Return a source with the line ends of Unix, and one at its end."""
    return source.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n") + "\n"


_Bindings = dict[str, list[tuple[ast.stmt, str]]]


def _top_level_bindings(tree: ast.Module) -> _Bindings:
    """Return for each top-level name the statements that bind it, with `bound_by`'s texts."""
    bindings: _Bindings = defaultdict(list)
    for statement in tree.body:
        if not is_main_guard(statement):
            for name, text in names_bound_by(statement).items():
                bindings[name].append((statement, text))
    return dict(bindings)


def _binding_texts(bindings: list[tuple[ast.stmt, str]]) -> list[str]:
    """Return what a name is bound to, one after the other; the same again counts once."""
    return [text for text, _ in itertools.groupby(text for _, text in bindings)]


def _is_present(statement: ast.stmt, there: set[str], bound: _Bindings) -> bool:
    if ast.dump(statement) in there:
        return True
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return False
    plain = all("." not in alias.name or alias.asname for alias in statement.names)
    is_module = isinstance(statement, ast.ImportFrom) or plain  # `import a.b` also loads a.b
    return is_module and names_bound_by(statement).keys() <= bound.keys()


def _problem_launch(statement: ast.stmt) -> dict[str, str] | None:
    """Return the problem's part of LAUNCH; ``None`` if it is not a plain dict."""
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign) or not isinstance(value, ast.Dict):
        return None
    keys = [key.value for key in value.keys if isinstance(key, ast.Constant)]
    if len(keys) != len(value.keys) or len({*keys}) != len(keys):
        return None
    pairs = zip(keys, value.values)
    return {str(k): ast.dump(v) for k, v in pairs if k not in _LAUNCH_OF_CANDIDATE}


def _first_line(statement: ast.stmt) -> int:
    """Return the first line of a statement, its decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _after_header(tree: ast.Module) -> int:
    """Return the line after a file's docstring and its imports from ``__future__``."""
    line = 0
    for position, statement in enumerate(tree.body):
        is_doc = position == 0 and ast.get_docstring(tree, clean=False) is not None
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not (is_doc or is_future):
            break
        line = statement.end_lineno or line
    return line


def _without_main_guard(source: str) -> tuple[str, ast.Module]:
    """Return a source without the part that only a script runs, and its tree."""
    tree = read_untrusted(source)
    guards = [statement for statement in tree.body if is_main_guard(statement)]
    if not guards:
        return source, tree
    lines = source.split("\n")
    for guard in guards:
        last = guard.end_lineno or guard.lineno
        lines[guard.lineno - 1 : last] = [""] * (last - guard.lineno + 1)
    return "\n".join(lines), parse_untrusted("\n".join(lines))
