"""Rules of what a kernel file of a model's may do, checked without running it.

The guarded bench and its sandbox are the defence; this keeps what is plainly unsafe away from them.
It allows by list: modules, and within torch, triton and numpy all but the parts that load, save,
compile or run code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from solkit.core.syntax import Meanings, dotted_full_names, imported_full_names
from solkit.tuner.proposers.untrusted_source import Reason, RefusedError, read_untrusted

ALLOWED_IMPORTS = tuple(
    """
    torch triton math functools typing dataclasses collections itertools operator enum numbers abc
    contextlib numpy __future__
    """.split()
)
_FORBIDDEN_PARTS = tuple(
    """
    torch.utils torch.hub torch.package torch.jit torch.fx torch.distributed torch.multiprocessing
    torch.onnx torch.export torch.classes torch.load torch.save torch.serialization torch.from_file
    torch.profiler torch.testing torch.futures torch.library torch.overrides torch.autograd.profiler
    torch.storage torch.ao torch.quantization torch.contrib torch.numa torch.compiler torch.monitor
    torch.ops.load_library torch.ops.loaded_libraries torch.cuda.memory torch.cuda.profiler
    torch.cuda.cudart torch.cuda.caching_allocator_alloc torch.UntypedStorage torch.backends
    torch.set_default_dtype torch.set_default_device torch.set_float32_matmul_precision
    triton.compiler triton.backends triton.testing triton.knobs triton.profiler triton.tools
    triton.runtime
    numpy.load numpy.save numpy.savez numpy.savez_compressed numpy.savetxt numpy.loadtxt
    numpy.genfromtxt numpy.fromfile numpy.memmap numpy.ctypeslib numpy.f2py numpy.testing
    numpy.lib numpy.distutils numpy.fromregex numpy.DataSource
    typing.get_type_hints typing.ForwardRef dataclasses.make_dataclass
    operator.attrgetter operator.methodcaller
    """.split()
)
_ALLOWED_PARTS = (
    *("triton.tools.tensor_descriptor", "triton.runtime.driver", "triton.runtime.Config"),
    *(f"torch._inductor.runtime.{name}" for name in ("triton_helpers", "triton_compat")),
    *("torch.library.triton_op", "torch.library.wrap_triton", "torch.library.custom_op"),
)
_ALLOWED_PRIVATE = {"_scaled_mm", "_int_mm", "_"}
_FORBIDDEN_NAMES = frozenset(
    """
    exec eval compile open __import__ globals locals vars setattr delattr breakpoint exit quit
    memoryview help
    """.split()
)
_LOOKUPS = {"getattr", "hasattr"}
_FORBIDDEN_ATTRIBUTES = frozenset(
    """
    os sys subprocess socket ctypes shutil pathlib importlib builtins pickle marshal multiprocessing
    threading asyncio tempfile urllib requests inspect gc pty posix runpy linecache
    system popen fork forkpty execv execve execvp spawnv spawnl posix_spawn kill putenv
    f_globals f_locals f_back f_builtins f_code gi_frame gi_code cr_frame cr_code ag_frame tb_frame
    tb_next func_globals func_code load_library load_inline load_url load_state_dict_from_url
    torch triton np io open codecs
    tofile fromfile memmap savetxt savez dump dumps share_memory_ from_file get_type_hints
    attrgetter methodcaller make_dataclass
    """.split()
)
_MOST_MEANINGS = 8
_FORBIDDEN_MODULES = _FORBIDDEN_ATTRIBUTES - {"torch", "triton"}
_ALLOWED_DUNDERS = {"__all__", "__init__", "__version__", "__name__", "__doc__"}
_ALLOWED_METHODS = {"__init__", "__call__", "__repr__", "__post_init__"}
_TRICKS = ("__class__", "__globals__", "__builtins__", "__subclasses__", "__import__", "__dict__")


def check_safe(own: Iterable[ast.stmt], tree: ast.Module, meanings: Meanings) -> None:
    """Check the statements of an answer that its parent does not have.

    Args:
        own: those statements.
        tree: the whole file, whose imports give names their meaning.
        meanings: what the parent imports, by name; an answer may import it too.

    Raises:
        RefusedError: one of them may do what no kernel needs.
    """
    seen = _FileMeanings(tree, meanings)
    for name, fulls in seen.meaning.items():
        if len(fulls) > _MOST_MEANINGS:  # each use is checked under each
            raise RefusedError(Reason.UNSAFE, f"imports bind {name} to {len(fulls)} things")
    for statement in own:
        for problem in _at_import(statement):
            _refuse_node(statement, problem)
        for node in _nodes_to_check(statement, seen):
            for problem in _problems_of_node(node, seen):
                _refuse_node(node, problem)


class _FileMeanings:
    """Meanings of a file's names, and names that may be imported."""

    def __init__(self, tree: ast.Module, meanings: Meanings) -> None:
        nodes = list(ast.walk(tree))
        self.known = set().union(*meanings.values())
        self.meaning = imported_full_names(nodes)
        every = set().union(*self.meaning.values())
        self.roots = {full.partition(".")[0] for full in every}
        self.modules = set(
            imported_full_names(node for node in nodes if isinstance(node, ast.Import))
        )
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        self.called = {id(call.func) for call in calls}
        self.bases = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        self.bases |= {id(call.args[0]) for call in calls if _lookup_function(call)}
        modules = {*ALLOWED_IMPORTS, *(full.partition(".")[0] for full in self.known)}
        self.allowed = modules - _FORBIDDEN_MODULES


def _refuse_node(node: ast.AST, problem: str) -> None:
    raise RefusedError(Reason.UNSAFE, f"line {getattr(node, 'lineno', 1)} {problem}")


def _at_import(statement: ast.stmt) -> Iterator[str]:
    """Yield a file only defines things when it is imported."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    defines = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.AnnAssign, ast.Assign)
    if isinstance(statement, (ast.Try, ast.If)):
        bodies = [statement.body, statement.orelse, getattr(statement, "finalbody", [])]
        bodies += [handler.body for handler in getattr(statement, "handlers", [])]
        for inner in (statement for body in bodies for statement in body):
            yield from _at_import(inner)
    elif not (is_text or isinstance(statement, (*defines, ast.Pass, ast.Assert))):
        yield "runs code at import: a kernel file only defines things"


def _nodes_to_check(statement: ast.stmt, seen: _FileMeanings) -> Iterator[ast.AST]:
    """Yield all nodes, also of annotations in quotes, since some libraries evaluate them."""
    for node in ast.walk(statement):
        yield node
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            for inner in ast.walk(annotation) if isinstance(annotation, ast.AST) else ():
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield from _quoted_nodes(inner.value, seen)


def _quoted_nodes(text: str, seen: _FileMeanings) -> Iterator[ast.AST]:
    """Yield the nodes of code in quotes; none if it is not code, e.g. in ``Literal["one two"]``."""
    try:
        tree = read_untrusted(text.strip())
    except RefusedError as error:
        if error.reason is not Reason.SYNTAX:
            raise
        return
    nodes = list(ast.walk(tree))
    seen.bases |= {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Call):
            _refuse_node(node, "calls something in a quoted annotation")
        yield node


def _problems_of_node(node: ast.AST, seen: _FileMeanings) -> Iterator[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from _problems_of_import(node, seen)
    elif isinstance(node, ast.Name):
        yield from _problems_of_name(node, seen)
    elif isinstance(node, ast.Attribute):
        yield from _problems_of_attribute(node, seen)
    elif isinstance(node, ast.Call):
        yield from _problems_of_lookup(node, seen)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if any(trick in node.value for trick in _TRICKS):
            yield "names an internal attribute in a string"
    elif isinstance(node, ast.AsyncFunctionDef):
        yield "defines a coroutine"
    elif isinstance(node, ast.FunctionDef) and _is_dunder(node.name):
        if node.name not in _ALLOWED_METHODS:
            yield f"defines {node.name}"
    elif isinstance(node, ast.keyword) and node.arg == "metaclass":
        yield "sets a metaclass"


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _problems_of_import(node: ast.Import | ast.ImportFrom, seen: _FileMeanings) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and node.level:
        yield "imports relative to the file"
        return
    for alias in node.names:
        module = node.module if isinstance(node, ast.ImportFrom) else None
        full = f"{module}.{alias.name}" if module else alias.name
        if alias.name == "*":
            yield f"imports everything from {module}"
        elif full.partition(".")[0] not in seen.allowed:
            yield f"imports {full}; allowed are {', '.join(ALLOWED_IMPORTS)}"
        elif full not in seen.known:
            yield from _problems_of_full_name(full)


def _problems_of_name(node: ast.Name, seen: _FileMeanings) -> Iterator[str]:
    is_internal = _is_dunder(node.id) and node.id not in _ALLOWED_DUNDERS
    if node.id in _FORBIDDEN_NAMES or is_internal:
        yield f"uses {node.id}"
    if node.id in _LOOKUPS and id(node) not in seen.called:
        yield f"uses {node.id} without calling it"
    for full in seen.meaning.get(node.id, ()):
        if full.partition(".")[0] in _FORBIDDEN_MODULES:
            yield f"uses {full}"
    if node.id in seen.modules and id(node) not in seen.bases:
        yield f"uses the module {node.id} as a value"  # by another name it could not be followed


def _problems_of_attribute(node: ast.Attribute, seen: _FileMeanings) -> Iterator[str]:
    if _is_dunder(node.attr) and node.attr not in _ALLOWED_DUNDERS:
        yield f"uses the internal attribute {node.attr}"
    if node.attr in _FORBIDDEN_ATTRIBUTES:
        yield f"uses .{node.attr}"
    for full in dotted_full_names(node, seen.meaning):
        if full.partition(".")[0] in seen.roots:
            yield from _problems_of_full_name(full)
            if not isinstance(node.ctx, ast.Load):
                yield f"sets {full} for everybody"


def _problems_of_full_name(full: str) -> Iterator[str]:
    """Yield a full name within an allowed module."""
    parts = full.split(".")[1:]
    if any(part in _FORBIDDEN_ATTRIBUTES or part == "numpy" for part in parts):
        yield f"uses {full}"
    if any(_is_within(full, part) or _is_within(part, full) for part in _ALLOWED_PARTS):
        return
    for part in _FORBIDDEN_PARTS:
        if _is_within(full, part):
            yield f"uses {part}"
    if any(p.startswith("_") and p not in _ALLOWED_PRIVATE | _ALLOWED_DUNDERS for p in parts):
        yield f"uses the private {full}"


def _is_within(full: str, part: str) -> bool:
    return full == part or full.startswith(f"{part}.")


def _lookup_function(node: ast.AST) -> str:
    """Return ``getattr`` or ``hasattr`` if it is a call of one; else empty."""
    called = node.func if isinstance(node, ast.Call) and node.args else None
    return called.id if isinstance(called, ast.Name) and called.id in _LOOKUPS else ""


def _problems_of_lookup(call: ast.Call, seen: _FileMeanings) -> Iterator[str]:
    """Yield why ``getattr`` or ``hasattr`` may not take its name: it must be allowed with a dot."""
    name = _lookup_function(call)
    attribute = call.args[1] if name and len(call.args) > 1 else None
    if not name:
        return
    if not (isinstance(attribute, ast.Constant) and isinstance(attribute.value, str)):
        yield f"uses {name} with a name that is not written out"
    elif attribute.value.startswith("_"):
        yield f"looks up the private {attribute.value}"
    else:
        yield from _problems_of_attribute(
            ast.Attribute(call.args[0], attribute.value, ast.Load()), seen
        )
