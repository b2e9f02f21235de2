"""A further program behind a kernel file's entry point, for the calls that it fits.

The entry point of a native file is ``kernel``, of KernelBench's form ``ModelNew.forward``, of a
solution ``run``. It keeps its parameters. Where a condition on them holds, it calls the program;
else what it did before::

    def kernel(x, *, XBLOCK=1024):
        if not (x.shape == (4096,) and ...):
            return call_kernel_before(x)  # another name of kernel_before, whose launches stay
        ...
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import libcst as cst
from libcst.metadata import (
    Assignment,
    ClassScope,
    GlobalScope,
    MetadataWrapper,
    Scope,
    ScopeProvider,
)

from solkit.core import Value
from solkit.core.proposals import EntryPoint
from solkit.core.syntax import names_bound_by_import
from solkit.tuner.proposers.rewriter._edit import with_defaults
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    assigned_names,
    free_name,
    functions_in,
    imported_name,
    is_docstring,
    names_within,
    nodes_within,
    parse_statement,
    parse_statements,
    render_code,
    render_module,
    replace_each,
    statements_of,
    substitute_names,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter._roots import launcher_params
from solkit.tuner.proposers.rewriter.host_paths import unread_name
from solkit.tuner.proposers.rewriter.model_forward import entry_statement, with_defined_kernel

_KERNEL, _FORWARD, _INIT = "kernel", "forward", "__init__"
_ENTRIES = (_INIT, _FORWARD)
_SPACE = ("SPACE", "valid")
_FITS = "fits_program"
"""Attribute of a model that was built with the arguments that a program was compiled for."""
_CALLED = ("isinstance", "len", "list", "str", "type")
"""Functions that conditions call."""
_PARTS = 40  # of a condition, in one statement
_PLAIN_INIT = """
def __init__(self, *args, **kwargs):
    super().__init__(*args, **kwargs)
"""


def entry_point(source: str, path: str, params: Mapping[str, Value]) -> EntryPoint | None:
    """Return the entry point of a kernel file; ``None`` if its text does not show one.

    Args:
        source: the file.
        path: its path.
        params: those that may be tuned, by name.
    """
    tree = _parsed(source)
    owner = None if tree is None else _owner(tree)
    entry = None if owner is None else _entry_of(owner)
    if entry is None:
        return None
    if not isinstance(owner, cst.ClassDef):
        return EntryPoint(path, _signature(entry.params, params))
    init = _method(owner, _INIT) or _plain_init()
    return EntryPoint(path, _signature(entry.params, params, 1), _signature(init.params, {}, 1))


def with_program(
    original: str, params: Mapping[str, Value], program: str, conditions: tuple[str, str]
) -> str:
    """Return a kernel file that runs a program where its entry point gets what the program fits.

    Args:
        original: the file, which does what it did elsewhere.
        params: its parameters in use.
        program: a file whose ``kernel`` takes the entry point's arguments; or whose ``ModelNew``
            hands them on to it.
        conditions: expressions of the parameters of ``__init__``, and of the entry point, that are
            true where the program fits.

    Returns:
        The text; empty if a parameter's name would stand for two things, or where a file has no
        such entry point.
    """
    text = parse_kernel(original)
    tree = _parsed(original if text is None else with_defaults(text, params))
    added = _parsed(program)
    if tree is None or added is None or (renamed := _renamed(tree, added)) is None:
        return ""
    before, names = renamed
    if (own_owner := _owner(tree)) is None:
        return ""
    own_name = own_owner.name.value
    owner = _defined(before, names.get(own_name, own_name))
    entry = None if owner is None else _entry_of(owner)
    if owner is None or entry is None:
        return ""
    public, taken = _entry_of(own_owner), names_within(before, added)
    assert public is not None
    if _is_ambiguous(own_owner, params, added):
        return ""
    is_renamed = entry.name.value != public.name.value
    former = entry.name.value if is_renamed else free_name(_before(entry.name.value), taken)
    changed: Body
    further: Body
    if isinstance(owner, cst.ClassDef):
        changed = [_model(owner, entry, added, conditions)]
        further = [s for s in added.body if not isinstance(s, cst.ClassDef)]
    else:
        called, binding = unread_name(former, taken)
        changed = [_named(entry, former), binding]
        entry = entry.with_changes(name=public.name)
        further = _program(added, entry, params, called, conditions[1])
    tree = with_each(before, {id(owner): changed})
    return render_module(tree.with_changes(body=[*_with_imports(tree.body, further)]))


def _parsed(source: str) -> cst.Module | None:
    try:
        return with_defined_kernel(cst.parse_module(source))
    except cst.ParserSyntaxError:
        return None


def _before(name: str) -> str:
    return f"{name}_before"


# ------------------------------------------------------------------------------- the entry point


def _owner(tree: cst.Module) -> cst.FunctionDef | cst.ClassDef | None:
    """Return the entry point, or the class that has it."""
    kernel = _defined(tree, _KERNEL)
    return entry_statement(tree) or (kernel if isinstance(kernel, cst.FunctionDef) else None)


def _defined(tree: cst.Module, name: str) -> cst.FunctionDef | cst.ClassDef | None:
    """Return the function or class that a name stands for: of several, the last."""
    kinds = (cst.FunctionDef, cst.ClassDef)
    defined = (s for s in reversed(tree.body) if isinstance(s, kinds))
    return next((s for s in defined if s.name.value == name), None)


def _entry_of(owner: cst.FunctionDef | cst.ClassDef) -> cst.FunctionDef | None:
    """Return the function; ``None`` if its arguments have no names."""
    entry = owner if isinstance(owner, cst.FunctionDef) else _method(owner, _FORWARD)
    if entry is None or entry.asynchronous is not None or entry.params.star_kwarg is not None:
        return None
    return entry


def _method(owner: cst.ClassDef, name: str) -> cst.FunctionDef | None:
    return functions_in(statements_of(owner)).get(name)


def _plain_init() -> cst.FunctionDef:
    return cst.ensure_type(parse_statement(_PLAIN_INIT), cst.FunctionDef)


def _signature(
    params: cst.Parameters, tuned: Mapping[str, Value], skipped: int = 0
) -> inspect.Signature:
    """Return parameters but for the first ones, and for those that may be tuned."""
    kinds = inspect.Parameter
    named = [*params.posonly_params, *params.params][skipped:]
    plain = [_parameter(param, kinds.POSITIONAL_OR_KEYWORD) for param in named]
    star = [params.star_arg] if isinstance(params.star_arg, cst.Param) else []
    further = [
        *(_parameter(p, kinds.VAR_POSITIONAL) for p in star),
        *(_parameter(p, kinds.KEYWORD_ONLY) for p in params.kwonly_params),
        *(_parameter(p, kinds.VAR_KEYWORD) for p in [params.star_kwarg] if p is not None),
    ]
    return inspect.Signature([p for p in [*plain, *further] if p.name not in tuned])


def _parameter(param: cst.Param, kind: Any) -> inspect.Parameter:
    return inspect.Parameter(param.name.value, kind, default=_literal(param.default))


def _literal(default: cst.BaseExpression | None) -> object:
    """Return a default's value; an ellipsis for one that is no literal."""
    if default is None:
        return inspect.Parameter.empty
    try:
        return ast.literal_eval(render_code(default))
    except (ValueError, SyntaxError):
        return ...


# ------------------------------------------------------------------------------- names


def _renamed(tree: cst.Module, added: cst.Module) -> tuple[cst.Module, dict[str, str]] | None:
    """Return a file without names that another one binds, and the names that it has for these.

    An import of the same is no clash. ``None`` if an import with dots binds such a name.
    """
    tree = tree.with_changes(body=list(_without_space(tree)))
    imported, program_imports = _imported_names(tree), _imported_names(added)
    own, others = set(imported), {_KERNEL, *_SPACE, *_CALLED, *program_imports}
    for statement in tree.body:
        own |= _bound_names(statement)
    for statement in added.body:
        others |= set() if _is_class(statement) else _bound_names(statement)
    same = {name for name, path in program_imports.items() if imported.get(name) == path}
    taken = names_within(tree, added)
    names = {name: free_name(_before(name), taken) for name in sorted(own & others - same)}
    renamed = _with_names(tree, names) if names else tree
    return None if renamed is None else (renamed, names)


def _with_names(tree: cst.Module, names: Mapping[str, str]) -> cst.Module | None:
    """Return a file in which names of its top level are others; ``None`` if an import has dots.

    Parameters, keywords and names of a function's own stay.
    """
    wrapper = MetadataWrapper(cst.parse_module(render_module(tree)), unsafe_skip_copy=True)
    scopes = wrapper.resolve(ScopeProvider).values()
    top = next(scope for scope in scopes if isinstance(scope, GlobalScope))
    tree, pairs = wrapper.module, dict[int, Swap]()
    for node in _nodes_of_names(tree, top, names):
        changed: cst.CSTNode
        if isinstance(node, cst.ImportAlias):
            if node.asname is None and not isinstance(node.name, cst.Name):
                return None
            new = cst.Name(names[imported_name(node)])
            changed = cst.ImportAlias(node.name, cst.AsName(new), node.comma)
        else:
            changed = node.with_changes(value=names[node.value])
        pairs[id(node)] = node, changed
    return replace_each(tree, list(pairs.values()))


def _nodes_of_names(
    tree: cst.Module, top: GlobalScope, names: Collection[str]
) -> Iterator[cst.Name | cst.ImportAlias]:
    """Yield places where names of the top level are bound or read, some twice."""
    for assignment in (bound for name in names for bound in top[name]):
        node = assignment.node if isinstance(assignment, Assignment) else None
        if isinstance(node, (cst.Import, cst.ImportFrom)) and not isinstance(
            node.names, cst.ImportStar
        ):
            yield from (alias for alias in node.names if imported_name(alias) in names)
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            yield node.name
        elif isinstance(node, cst.Name):
            yield node
        read = (a.node for a in assignment.references if not _is_local(assignment.name, a.scope))
        yield from (node for node in read if isinstance(node, cst.Name))
    for node in nodes_within(tree):
        if isinstance(node, cst.Global):
            yield from (item.name for item in node.names if item.name.value in names)


def _is_local(name: str, scope: Scope) -> bool:
    """Tell whether a name that a scope reads is local to a function around.

    libcst also lists the top level's for it where the read and the assignment are one statement.
    """
    if isinstance(scope, GlobalScope):
        return False
    is_local = not isinstance(scope, ClassScope) and name in scope.assignments
    return is_local or _is_local(name, scope.parent)


def _is_ambiguous(
    owner: cst.FunctionDef | cst.ClassDef, tuned: Mapping[str, Value], added: cst.Module
) -> bool:
    """Tell whether a parameter has a name that something else needs."""
    kernel = functions_in(added.body)[_KERNEL]
    needed = {*_CALLED, "torch", *_imported_names(added)}
    needed |= {name for s in added.body if not _is_class(s) for name in _bound_names(s)}
    needed |= {p.name.value for p in kernel.params.kwonly_params}
    names = set(_parameter_names(owner))
    return bool(needed & (names - (set() if isinstance(owner, cst.ClassDef) else set(tuned))))


def _parameter_names(owner: cst.FunctionDef | cst.ClassDef) -> Iterator[str]:
    """Yield the names of parameters that conditions may read, and of those that are tuned."""
    if isinstance(owner, cst.FunctionDef):
        yield from launcher_params(owner)
        return
    for function in filter(None, (_method(owner, name) for name in _ENTRIES)):
        yield from launcher_params(function)


def _without_space(tree: cst.Module) -> Iterator[cst.BaseStatement]:
    """Yield statements but for a space that nothing else reads."""
    for statement in tree.body:
        bound = _bound_names(statement) & set(_SPACE)
        rest = names_within(*(other for other in tree.body if other is not statement))
        if not bound or bound & rest:
            yield statement


def _is_class(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.ClassDef)


def _bound_names(statement: cst.CSTNode) -> set[str]:
    """Return the names that a statement at the top level binds, but for imports."""
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return {statement.name.value}
    return set(assigned_names(statement))


def _imported_names(tree: cst.Module) -> dict[str, str]:
    """Return what each imported name stands for."""
    lines = _import_lines(tree.body)
    return {name: path for line in lines for name, path in names_bound_by_import(line)}


def _import_lines(body: Sequence[cst.CSTNode]) -> Iterator[ast.Import | ast.ImportFrom]:
    for statement in body:
        if isinstance(statement, cst.SimpleStatementLine):
            for line in ast.parse(render_code(statement).strip()).body:
                if isinstance(line, (ast.Import, ast.ImportFrom)):
                    yield line


# ------------------------------------------------------------------------------- the text


def _named(function: cst.FunctionDef, name: str) -> cst.FunctionDef:
    return function.with_changes(name=cst.Name(name))


def _guards(condition: str, call: str) -> list[cst.BaseStatement]:
    """Return statements that return a call where a condition does not hold.

    A large model's has a thousand parts, which would be nested as deep in one expression.
    """
    parts = [condition]
    match ast.parse(condition, mode="eval").body:
        case ast.BoolOp(op=ast.And(), values=values):
            parts = [ast.unparse(value) for value in values]
    return [
        parse_statement(f"if not ({' and '.join(parts[at : at + _PARTS])}):\n    return {call}\n")
        for at in range(0, len(parts), _PARTS)
    ]


def _passed(params: cst.Parameters, tuned: Mapping[str, Value], skipped: int = 0) -> list[str]:
    """Return the arguments that hand a function's parameters on."""
    names = [p.name.value for p in (*params.posonly_params, *params.params)][skipped:]
    star = params.star_arg
    passed = [name for name in names if name not in tuned]
    passed += [f"*{star.name.value}"] if isinstance(star, cst.Param) else []
    named = [p.name.value for p in params.kwonly_params if p.name.value not in tuned]
    return [*passed, *(f"{name}={name}" for name in named)]


def _program(
    added: cst.Module,
    public: cst.FunctionDef,
    params: Mapping[str, Value],
    before: str,
    condition: str,
) -> list[cst.BaseStatement]:
    """Return a program's statements with an entry point of the former parameters."""
    guards = _guards(condition, f"{before}({', '.join(_passed(public.params, params))})")
    kernel = functions_in(added.body)[_KERNEL]
    if public.name.value != _KERNEL:
        return [*added.body, _solution(public, kernel, guards)]
    own = public.params
    kept = [p for p in own.kwonly_params if p.name.value not in params]
    star = own.star_arg
    if not isinstance(star, cst.Param):
        star = cst.ParamStar() if kept or kernel.params.kwonly_params else cst.MaybeSentinel.DEFAULT
    merged = own.with_changes(
        params=[p for p in own.params if p.name.value not in params],
        star_arg=star,
        kwonly_params=[*kept, *kernel.params.kwonly_params],
    )
    changed = with_body(kernel, [*guards, *statements_of(kernel)]).with_changes(params=merged)
    return [changed if statement is kernel else statement for statement in added.body]


def _solution(run: cst.FunctionDef, kernel: cst.FunctionDef, guards: Body) -> cst.FunctionDef:
    """Return an entry point that hands its arguments on; results go where it is told."""
    inputs = [p.name.value for p in kernel.params.params]
    outputs = [p.name.value for p in run.params.params if p.default is None][len(inputs) :]
    call = f"{_KERNEL}({', '.join([*inputs, '**params'])})"
    lines = [f"return {call}"]
    if outputs:
        lines = [f"results = {call}"]
        lines += [f"{name}.copy_(results[{place}])" for place, name in enumerate(outputs)]
    params = run.params.with_changes(star_kwarg=cst.Param(cst.Name("params")))
    body = [*guards, *parse_statements("\n".join(lines) + "\n")]
    return with_body(run, body).with_changes(params=params)


def _model(
    model: cst.ClassDef, forward: cst.FunctionDef, added: cst.Module, conditions: tuple[str, str]
) -> cst.ClassDef:
    """Return a class whose ``forward`` runs the program where it fits."""
    built, called = conditions
    owner = forward.params.params[0].name.value
    stub = next(s for s in added.body if isinstance(s, cst.ClassDef))
    handing = _method(stub, _FORWARD)
    assert handing is not None
    if built:
        called = f"self.{_FITS} and {called}"
    own = {"self": cst.Name(owner)}
    before = _before(_FORWARD)
    passed = ", ".join(_passed(forward.params, {}, 1))
    guards = _guards(called, f"self.{before}({passed})")
    body = [substitute_names(s, own) for s in (*guards, *statements_of(handing))]
    params = forward.params.with_changes(star_kwarg=cst.Param(cst.Name("params")))
    entry = with_body(forward, body).with_changes(params=params)
    changed = replace_each(model, [(forward, _named(forward, before))])
    return _with_built(with_body(changed, [*statements_of(changed), entry]), built)


def _with_built(model: cst.ClassDef, built: str) -> cst.ClassDef:
    """Return a class whose objects say whether they were built as the program's was."""
    if not built:
        return model
    init = _method(model, _INIT)
    before = model if init is not None else with_body(model, [_plain_init(), *statements_of(model)])
    init = init or _method(before, _INIT)
    assert init is not None
    owner = init.params.params[0].name.value
    line = parse_statement(f"{owner}.{_FITS} = {built}\n")
    return replace_each(before, [(init, with_body(init, [line, *statements_of(init)]))])


def _with_imports(body: Body, further: Body) -> Iterator[cst.BaseStatement]:
    """Yield a file's statements, then a program's, whose imports come behind the file's own."""
    imports = [s for s in further if list(_import_lines([s]))]
    seen = {render_code(s).strip() for s in body}
    new = [s for s in imports if render_code(s).strip() not in seen]
    places = [at for at, s in enumerate(body) if list(_import_lines([s]))]
    behind = places[-1] + 1 if places else 0
    yield from (*body[:behind], *new, *body[behind:])
    yield from (s for s in further if s not in imports and not is_docstring(s))
