"""Suspicious code in a candidate's source, found before it runs.

It reads only the syntax tree, without torch. Honest kernels use streams, caches, threads and flags
too, so a finding is a hint; only what no kernel ever needs, such as assigning to
``torch.cuda.Event.elapsed_time``, is proof.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Union

from solkit.core.parsing import syntax_tree
from solkit.measure.anti_cheating import Finding

_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]

# No kernel may replace anything under these names: clocks, waiting, events, profiler, comparing.
_INSTRUMENTS = tuple(
    """
    time. builtins. solkit. sys.modules torch.cuda.Event. torch.cuda.Stream. torch.cuda.synchronize
    torch.cuda.current_stream torch.profiler. torch.autograd.profiler. torch.testing.
    torch.allclose torch.equal torch.isclose torch.Tensor.__eq__ torch.Tensor.allclose
    torch.Tensor.equal triton.testing. triton.runtime.
    """.split()
)
_CONFIGURATION = {"backends", "config", "knobs", "_C"}
_OWNERS = {"torch", "triton", "numpy", "os", "gc", "random", "ctypes"}

_CALLS = {
    "background threads or processes": """
        threading.Thread threading.Timer _thread.start_new_thread multiprocessing. subprocess.
        concurrent.futures. os.fork os.posix_spawn os.system torch.multiprocessing.
        torch.jit.fork torch.jit._fork asyncio. signal.setitimer signal.alarm
    """,
    "peeked memory": """
        gc.get_objects gc.get_referrers sys._getframe sys._current_frames inspect.stack
        inspect.currentframe inspect.getouterframes ctypes.memmove ctypes.memset ctypes.string_at
        ctypes.cast torch.cuda.memory_snapshot torch.cuda.caching_allocator_alloc
    """,
    "global flag": """
        torch.set_float32_matmul_precision torch.set_default_dtype torch.set_flush_denormal
        torch.use_deterministic_algorithms torch.set_num_threads torch.set_default_device
        torch.set_autocast_enabled torch.backends.cuda.enable_flash_sdp
        torch.backends.cuda.enable_math_sdp torch.backends.cuda.enable_mem_efficient_sdp
    """,
    "trace hook": "sys.settrace sys.setprofile threading.settrace threading.setprofile "
    "sys.monitoring. sys.addaudithook atexit.register",
    "timing-aware": "time. torch.cuda.Event torch.cuda.is_current_stream_capturing",
    "hidden code": "exec eval compile __import__ marshal. base64. zlib. codecs.decode",
    "dispatcher override": "torch.library.Library torch.library.impl",
    "early exit": "os._exit os.abort os.kill sys.exit exit quit",
    "lazy tensor": "torch.Tensor._make_wrapper_subclass torch.Tensor._make_subclass",
    "library fallback": """
        torch.matmul torch.mm torch.bmm torch.addmm torch.baddbmm torch.einsum torch.compile
        torch.softmax torch.conv1d torch.conv2d torch.conv3d torch._scaled_mm torch.nn.functional.
        torch.ops.aten.
    """,
}
_PATCHERS = {"setattr", "delattr", "unittest.mock.patch", "unittest.mock.patch.object"}
_L2_WORDS = ("persistingL2", "PersistingL2", "accessPolicyWindow", "CtxSetLimit", "DeviceSetLimit")
_LAZY_HOOKS = {"__torch_function__", "__torch_dispatch__"}
_JOINS = {"wait_stream", "wait_event", "synchronize", "wait"}
_KEYS = {"data_ptr", "_version", "untyped_storage"}
_KEY_MAKERS = {"id", "hash", "str", "repr", "int", "tuple", "frozenset"}
_ALIGNED_BYTES = 256
"""Allocations begin at a multiple of it (CUDA C++ Programming Guide, Device Memory Accesses), so an
address's remainder by it tells where a view begins, and never which tensor it is."""
_LOW_BITS_ALONE = (ast.Add, ast.Sub, ast.Mult, ast.BitOr, ast.BitXor, ast.BitAnd)
"""Operators whose low bits depend on the operands' low bits alone: no shift to the right, no
division brings others there."""


def suspicions(source: str, path: str) -> tuple[Finding, ...]:
    """Suspicious places in a candidate's Python source, in the order of its lines.

    A file may hold the problem as well. What only the problem uses is not the candidate's, so a
    reference that calls torch is no hint; a proof counts wherever it is.

    Raises:
        SyntaxError: it is not valid Python.
    """
    tree = syntax_tree(source, path)
    whole, own = _Reader(tree, path), _Reader(_candidate_source(tree), path)
    findings = [finding for rule in _RULES for finding in rule(own)]
    findings += [finding for rule in _RULES for finding in rule(whole) if finding[1].is_proof]
    return tuple(
        finding
        for _, finding in sorted(
            dict.fromkeys(findings), key=lambda entry: (entry[0], entry[1].trick)
        )
    )


_PROBLEM = {"reference", "inputs", "check", "valid", "Model", "get_inputs", "get_init_inputs"}


def _candidate_source(tree: ast.Module) -> ast.Module:
    """Return the source without the problem's functions and what only they use."""
    defined = {
        node.name: node
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
    names = {
        node: {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & defined.keys()
        for node in tree.body
    }

    def reachable_statements(nodes: Iterable[ast.stmt]) -> set[ast.stmt]:
        statements: set[ast.stmt] = set()
        todo = list(nodes)
        while todo:
            node = todo.pop()
            if node not in statements:
                statements.add(node)
                todo += [defined[name] for name in names[node]]
        return statements

    problem = {node for name, node in defined.items() if name in _PROBLEM}
    behind = reachable_statements(problem)
    rest = [node for node in tree.body if node not in problem]
    used = reachable_statements(node for node in rest if node not in behind)
    return ast.Module([node for node in tree.body if node in used], tree.type_ignores)


_Findings = Iterator[tuple[int, Finding]]


class _Reader:
    """A source with the names that its imports bind."""

    def __init__(self, tree: ast.Module, path: str) -> None:
        self.nodes = list(ast.walk(tree))
        self._path = path
        self._imported: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._imported[alias.asname or name] = name
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self._imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        # a name with another binding may mean something else where it is used
        self._rebound = {
            *(n.id for n in self.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)),
            *(n.arg for n in self.nodes if isinstance(n, ast.arg)),
            *(n.name for n in self.nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))),
        }

    def resolve_name(self, node: ast.AST) -> str:
        """Return the full name that an expression refers to; empty if unclear."""
        if isinstance(node, ast.Attribute):
            owner = self.resolve_name(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        if not isinstance(node, ast.Name) or node.id in self._rebound:
            return ""
        if node.id in self._imported:
            return self._imported[node.id]
        return node.id if hasattr(builtins, node.id) else ""

    def list_functions(self) -> list[_Function]:
        """Return every function of the file."""
        return [n for n in self.nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]

    def make_finding(
        self, trick: str, node: ast.AST, text: str, is_proof: bool = False
    ) -> tuple[int, Finding]:
        line = getattr(node, "lineno", 1)
        return line, Finding(trick, f"{self._path}:{line} {text}", is_proof)


def _find_patches(reader: _Reader) -> _Findings:
    """Find assignments to attributes of torch, triton, Python or the harness."""
    for node in reader.nodes:
        for target in _assigned_targets(node):
            name = reader.resolve_name(target)
            if isinstance(target, ast.Subscript):
                name = reader.resolve_name(target.value)
                name = "" if name != "sys.modules" else name
            yield from _judge_patch(reader, node, name)
        if isinstance(node, ast.Call) and reader.resolve_name(node.func) in _PATCHERS:
            yield from _judge_patch(reader, node, _patched_by_call(reader, node))


def _assigned_targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.Assign, ast.Delete)):
        return list(node.targets)
    return [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else []


def _patched_by_call(reader: _Reader, call: ast.Call) -> str:
    """Return what ``setattr(owner, "name", ...)`` or ``patch("owner.name", ...)`` replaces."""
    first, second = (*call.args[:2], None, None)[:2]
    if reader.resolve_name(call.func) == "unittest.mock.patch":
        return _string_value(first)
    owner = reader.resolve_name(first) if first is not None else ""
    return f"{owner}.{_string_value(second)}" if owner else ""


def _string_value(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _judge_patch(reader: _Reader, node: ast.AST, name: str) -> _Findings:
    parts = name.split(".")
    if len(parts) < 2:
        return
    if name.startswith(_INSTRUMENTS):
        yield reader.make_finding("patched function", node, f"replaces {name}", is_proof=True)
    elif parts[0] in _OWNERS and _CONFIGURATION.isdisjoint(parts):
        yield reader.make_finding("patched function", node, f"replaces {name}")
    elif parts[0] in ("torch", "triton"):
        yield reader.make_finding("global flag", node, f"sets {name} for everybody")


def _find_suspicious_calls(reader: _Reader) -> _Findings:
    """Find calls that a kernel seldom needs, by purpose."""
    for node in reader.nodes:
        name = reader.resolve_name(node.func) if isinstance(node, ast.Call) else ""
        for trick, listed in _CALLS.items():
            if name and any(_matches_entry(name, entry) for entry in listed.split()):
                yield reader.make_finding(trick, node, f"calls {name}")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield reader.make_finding("library fallback", node, "multiplies matrices with `@`")


def _matches_entry(name: str, entry: str) -> bool:
    return name.startswith(entry) if entry.endswith(".") else name == entry


def _find_harness_access(reader: _Reader) -> _Findings:
    """Access to the code that measures."""
    for node in reader.nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            if any(name.partition(".")[0] == "solkit" for name in names):
                yield reader.make_finding("patched function", node, "imports the harness")
        if isinstance(node, ast.Attribute) and reader.resolve_name(node) == "sys.modules":
            yield reader.make_finding("patched function", node, "looks through sys.modules")
        is_set = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if isinstance(node, ast.Attribute) and is_set and node.attr == "__code__":
            yield reader.make_finding("patched function", node, "replaces a function's code")


def _find_lazy_tensors(reader: _Reader) -> _Findings:
    """Find custom tensor classes."""
    for node in reader.nodes:
        if isinstance(node, ast.ClassDef):
            bases = [reader.resolve_name(base) for base in node.bases]
            hooks = {n.name for n in node.body if isinstance(n, ast.FunctionDef)} & _LAZY_HOOKS
            if "torch.Tensor" in bases or hooks:
                yield reader.make_finding(
                    "lazy tensor", node, f"{node.name} is a custom tensor class"
                )
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "as_subclass":
                yield reader.make_finding("lazy tensor", node, "returns tensors as another class")
            if node.func.attr == "register_pytree_node":
                yield reader.make_finding("lazy container", node, "registers a custom container")


def _find_unjoined_streams(reader: _Reader) -> _Findings:
    """Streams in a file that never synchronises."""
    calls = [node for node in reader.nodes if isinstance(node, ast.Call)]
    waits = any(isinstance(c.func, ast.Attribute) and c.func.attr in _JOINS for c in calls)
    for call in calls:
        if reader.resolve_name(call.func).endswith("cuda.Stream") and not waits:
            text = "creates a stream, and nothing in the file waits for one"
            yield reader.make_finding("unjoined stream", call, text)


def _find_memoisation(reader: _Reader) -> _Findings:
    """Yield results looked up by a tensor's address or identity."""
    for nodes in _scopes(reader):
        names = _names_of_addresses(reader, nodes)
        for node in nodes:
            keys = _lookup_keys(node)
            if isinstance(node, ast.Compare) and _is_null_check(keys, names):
                continue
            if any(_has_address(reader, key, names) for key in keys):
                yield reader.make_finding(
                    "memoised result", node, "looks something up by a tensor's address"
                )


def _lookup_keys(node: ast.AST) -> list[ast.expr]:
    """Return what an expression looks something up by, or compares."""
    if isinstance(node, ast.Subscript):
        return [node.slice]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return list(node.args[:1]) if node.func.attr in ("get", "setdefault", "pop") else []
    return []


def _scopes(reader: _Reader) -> list[list[ast.AST]]:
    """Return the nodes of each outermost function, and those outside of all."""
    inside: set[ast.AST] = set()
    scopes: list[list[ast.AST]] = []
    for function in reader.list_functions():  # outer ones come first
        if function not in inside:
            scopes.append(list(ast.walk(function)))
            inside.update(scopes[-1])
    return [*scopes, [node for node in reader.nodes if node not in inside]]


def _names_of_addresses(reader: _Reader, nodes: Sequence[ast.AST]) -> set[str]:
    """Return names of an address, or of a tuple or text with one, and names of these."""
    names: set[str] = set()
    while True:
        bound = {
            target.id
            for node in nodes
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
            and _is_key(node.value)
            and _has_address(reader, node.value, names)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        if bound <= names:
            return names
        names |= bound


def _is_key(node: ast.AST | None) -> bool:
    """Tell whether a value could be a key itself: what a launch or a condition gives is none."""
    if isinstance(node, ast.Call):
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in _KEYS
        return is_method or (isinstance(node.func, ast.Name) and node.func.id in _KEY_MAKERS)
    return isinstance(node, (ast.Name, ast.Attribute, ast.Tuple, ast.BinOp, ast.JoinedStr))


def _has_address(reader: _Reader, node: ast.AST | None, names: set[str]) -> bool:
    """Tell whether an expression's value depends on more of an address than its alignment."""
    return node is not None and any(
        _is_address_key(reader, inner) or (isinstance(inner, ast.Name) and inner.id in names)
        for inner in _walk_values(node)
    )


def _is_null_check(sides: Sequence[ast.AST], names: set[str]) -> bool:
    """Tell whether a comparison is of an address itself with 0: is there any memory?"""
    values = [side.value for side in sides if isinstance(side, ast.Constant)]
    others = [side for side in sides if not isinstance(side, ast.Constant)]
    if len(sides) != 2 or values != [0]:
        return False
    (side,) = others
    if isinstance(side, ast.Name):
        return side.id in names
    function = side.func if isinstance(side, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr == "data_ptr"


def _walk_values(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what an expression is made of, but not of which only the alignment is taken."""
    if isinstance(node, ast.BinOp) and _is_alignment(node):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk_values(child)


def _is_alignment(node: ast.BinOp) -> bool:
    """Tell whether an operation keeps so few low bits of an address that all tensors have them."""
    sides = (node.left, node.right)
    if isinstance(node.op, ast.Mod):
        size = node.right.value if isinstance(node.right, ast.Constant) else None
        is_small = isinstance(size, int) and size > 0 and _ALIGNED_BYTES % size == 0
        return is_small and _keeps_low_bits(node.left)
    if not isinstance(node.op, ast.BitAnd):
        return False
    masks = [side.value for side in sides if isinstance(side, ast.Constant)]
    is_small = any(isinstance(mask, int) and 0 <= mask < _ALIGNED_BYTES for mask in masks)
    return is_small and all(_keeps_low_bits(side) for side in sides)


def _keeps_low_bits(node: ast.AST) -> bool:
    """Tell whether an expression's low bits come from the low bits of the addresses in it."""
    if isinstance(node, ast.BinOp):
        is_known = isinstance(node.op, _LOW_BITS_ALONE)
        return is_known and all(_keeps_low_bits(side) for side in (node.left, node.right))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and not (node.args or node.keywords)
    if isinstance(node, ast.Attribute):
        return node.attr != "_version"  # it counts: its low bits tell tensors apart
    return isinstance(node, (ast.Name, ast.Constant))


def _is_address_key(reader: _Reader, node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _KEYS
    return isinstance(node, ast.Call) and reader.resolve_name(node.func) == "id"


def _find_call_counters(reader: _Reader) -> _Findings:
    """Yield functions that count their calls and compare the count."""
    for function in reader.list_functions():
        inner = list(ast.walk(function))
        outlives = {
            name for n in inner if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names
        }
        counted = {
            ast.unparse(n.target)
            for n in inner
            if isinstance(n, ast.AugAssign)
            and (not isinstance(n.target, ast.Name) or n.target.id in outlives)
        }
        for node in inner:
            if isinstance(node, ast.Compare) and counted & {
                ast.unparse(n) for side in (node.left, *node.comparators) for n in ast.walk(side)
            }:
                text = f"{function.name} behaves according to its number of calls"
                yield reader.make_finding("timing-aware", node, text)


def _find_swallowed_errors(reader: _Reader) -> _Findings:
    """Handlers that swallow any exception."""
    for node in reader.nodes:
        if not isinstance(node, ast.ExceptHandler):
            continue
        kind = reader.resolve_name(node.type) if node.type is not None else "BaseException"
        raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
        if kind in ("BaseException", "Exception", "RuntimeError") and not raises:
            text = f"continues after any {kind}: a failing kernel goes unnoticed"
            yield reader.make_finding("swallowed exception", node, text)


def _find_unlaunched_kernels(reader: _Reader) -> _Findings:
    """Unused Triton kernels."""
    used = {n.id for n in reader.nodes if isinstance(n, ast.Name)}
    used |= {n.attr for n in reader.nodes if isinstance(n, ast.Attribute)}
    for function in reader.list_functions():
        kinds = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
        is_kernel = any(reader.resolve_name(kind) == "triton.jit" for kind in kinds)
        if is_kernel and function.name not in used:
            text = f"the kernel {function.name} is never launched"
            yield reader.make_finding("library fallback", function, text)


def _find_l2_persistence(reader: _Reader) -> _Findings:
    """CUDA API names that keep data in L2."""
    for node in reader.nodes:
        text = node.value if isinstance(node, ast.Constant) else getattr(node, "attr", "")
        if isinstance(text, str) and any(word in text for word in _L2_WORDS):
            yield reader.make_finding("L2 persistence", node, "asks CUDA to keep data in L2")


_RULES: tuple[Callable[[_Reader], _Findings], ...] = (
    *(
        _find_patches,
        _find_suspicious_calls,
        _find_harness_access,
        _find_lazy_tensors,
        _find_unjoined_streams,
        _find_memoisation,
        _find_call_counters,
        _find_swallowed_errors,
    ),
    *(_find_unlaunched_kernels, _find_l2_persistence),
)
