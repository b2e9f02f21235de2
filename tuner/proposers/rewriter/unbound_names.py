"""Names that a function reads where no path has bound them: Python raises there.

A rewrite that moves a statement, or adds one, may place it ahead of what it needs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def unbound_names(tree: ast.Module) -> frozenset[str]:
    """Return names of functions' own that are read where no path has bound them.

    What a function within a function, or a comprehension, reads is left out: it may run later.
    """
    functions = [node for node in ast.walk(tree) if isinstance(node, _Function)]
    return frozenset(name for function in functions for name in _Reads(function).unbound)


class _Reads:
    """The reads of one function, along its paths."""

    def __init__(self, function: _Function) -> None:
        listed = function.args
        params = [*listed.posonlyargs, *listed.args, *listed.kwonlyargs]
        params += [param for param in (listed.vararg, listed.kwarg) if param is not None]
        named = {param.arg for param in params}
        nodes = [node for s in function.body for node in _own_nodes(s)]
        shared = {n for s in nodes if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
        self._own = {name for s in function.body for name in _bound_in(s)} - named - shared
        self.unbound: set[str] = set()
        self._follow(function.body, frozenset())

    def _follow(
        self, body: Sequence[ast.stmt], bound: frozenset[str] | None
    ) -> frozenset[str] | None:
        """Return what may be bound behind statements; ``None`` if no path gets there."""
        for statement in body:
            if bound is None:
                return None
            bound = self._step(statement, bound)
        return bound

    def _step(self, statement: ast.stmt, bound: frozenset[str]) -> frozenset[str] | None:
        for part in _parts_ahead(statement):
            bound = self._read(part, bound)
        match statement:
            case ast.If():
                sides = [self._follow(part, bound) for part in (statement.body, statement.orelse)]
            case ast.For() | ast.AsyncFor() | ast.While():
                targets = () if isinstance(statement, ast.While) else _bound_in(statement.target)
                late = bound.union(*map(_bound_in, statement.body), targets)  # by an earlier trip
                self._follow(statement.body, late)
                sides = [late, self._follow(statement.orelse, late)]
            case ast.With() | ast.AsyncWith():
                return self._follow(statement.body, bound)
            case ast.Try():
                late = bound.union(*map(_bound_in, statement.body))
                whole = self._follow(statement.orelse, self._follow(statement.body, bound))
                caught = [
                    self._follow(handler.body, late | ({handler.name} if handler.name else set()))
                    for handler in statement.handlers
                ]
                sides = [whole, *caught]
                if statement.finalbody:
                    return self._follow(statement.finalbody, late.union(*filter(None, sides)))
            case ast.Match():
                sides = [bound]
                for case in statement.cases:
                    sides.append(self._follow(case.body, bound.union(_bound_in(case.pattern))))
            case ast.Delete():
                return bound.difference(n.id for n in statement.targets if isinstance(n, ast.Name))
            case _ if isinstance(statement, _ENDS):
                return None
            case _:
                return bound.union(_bound_in(statement))
        reached = [side for side in sides if side is not None]
        return frozenset[str]().union(*reached) if reached else None

    def _read(self, part: ast.AST, bound: frozenset[str]) -> frozenset[str]:
        """Note what an expression reads; returns what is bound behind it."""
        behind = bound.union(_bound_in(part))  # also what it binds itself, by ``:=``
        for node in _own_nodes(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.unbound |= {node.id} & (self._own - behind)
        return behind


def _parts_ahead(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield what a statement reads before it binds a name, or runs a block."""
    match statement:
        case ast.If() | ast.While():
            yield statement.test
        case ast.For() | ast.AsyncFor():
            yield statement.iter
        case ast.With() | ast.AsyncWith():
            yield from statement.items
        case ast.Match():
            yield statement.subject
        case ast.Assign() | ast.AnnAssign():
            yield from () if statement.value is None else (statement.value,)
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (target for target in targets if not isinstance(target, ast.Name))
        case ast.AugAssign():
            target = statement.target
            plain = ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target
            yield from (plain, statement.value)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield from statement.decorator_list
        case ast.Try() | ast.Delete():
            pass
        case _:
            yield statement


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes but for those that another scope, or a comprehension, evaluates."""
    yield node
    if not isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
        for child in ast.iter_child_nodes(node):
            yield from _own_nodes(child)


def _bound_in(node: ast.AST) -> set[str]:
    """Return the names that a node may bind, in its blocks too."""
    names = set[str]()
    for inner in _own_nodes(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.alias(name=name, asname=asname):
                names.add(asname or name.partition(".")[0])
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
    return names
