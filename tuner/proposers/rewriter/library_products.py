"""Products and convolutions of PyTorch in a launcher become launches of the file's own.

A wrapper multiplies with PyTorch ahead of a launch, or behind one. The library computes products
of fp32 on the scalar pipe unless its settings say otherwise, and no launch can be fused with it. So
such a product is written as a plain launch, which other rewrites suit to the GPU and fuse.

What the launch relies on is asked of the parameters of ``kernel`` at each call: types, numbers of
dimensions, that nothing is differentiated and that no autocast is on. Else ``kernel`` does what it
did before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from solkit.ops import OPERATORS
from solkit.tuner.proposers.rewriter._edit import launch_line
from solkit.tuner.proposers.rewriter._launcher_tensors import (
    SAME_TYPE,
    LauncherTensor,
    launcher_tensor,
)
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    argument_of,
    assigned_names,
    called_name,
    expand_names,
    free_name,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    parse_statements,
    render_code,
    render_module,
    replace_each,
    single_assignment,
    statements_of,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import call_args
from solkit.tuner.proposers.rewriter._parse import KernelText, launcher_definition
from solkit.tuner.proposers.rewriter._roots import TENSOR_QUERIES
from solkit.tuner.proposers.rewriter.host_paths import with_direct_names, with_otherwise
from solkit.tuner.proposers.rewriter.library_convolutions import (
    Convolution,
    as_convolution,
    convolution_arguments,
    convolution_function,
)
from solkit.tuner.proposers.rewriter.operands import admitted_precisions

_PRODUCTS = frozenset(f"aten.{name}" for name in "mm addmm bmm baddbmm matmul".split())
_CONVOLUTIONS = frozenset(("aten.convolution", "aten.cudnn_convolution"))
"""Recorded operators."""
_LINEAR = ("torch.nn.functional.linear", "F.linear", "nn.functional.linear")
_FUNCTIONS = ("torch.matmul", "torch.mm", "torch.bmm")
_METHODS = ("matmul", "mm", "bmm")
_EXACT = "ieee"
_MOST = 65536
"""Programs along a grid's last axes are fewer: batches, which one of these counts."""
_TRANSPOSED = ("T", "mT")


class LibraryProducts:
    """A product that a launcher leaves to PyTorch becomes a launch of its own.

    Applies to ``torch.matmul``, ``mm``, ``bmm``, ``addmm``, ``@``, ``linear`` and ``conv1d`` to
    ``conv3d`` among the launcher's own statements, where the operands' types and numbers of
    dimensions follow from its parameters. Products of fp32 take passes of tf32 if the bound admits
    them, and stay with PyTorch if it admits none: exact ones run on the scalar pipe in both.
    Convolutions that were recorded on tensor cores stay with PyTorch.
    """

    kind = "own product"
    helps = ("wrong pipe", "scalar product", "wide product", "extra traffic", "launches")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        convolves = _convolves(facts)
        for precision, route in _precisions(facts, convolves):
            source, count = _with_own_products(text, precision, convolves=convolves)
            if count:
                what = "A product" if count == 1 else f"{count} products"
                why = facts.explain_factors("wrong pipe", "extra traffic")
                yield Variant(
                    source,
                    f"{what} of the launcher {'is a launch' if count == 1 else 'are launches'} "
                    f"of the file{f', as {route}' if route else ''}, which others can join{why}.",
                )


def _precisions(facts: Facts, convolves: bool) -> list[tuple[str, str]]:
    """Return precisions of Triton's products, the fastest first, and their words in a bound."""
    if facts.brief.result is None:
        return [(_EXACT, "")]
    pipes = _pipes(facts, _PRODUCTS | (_CONVOLUTIONS if convolves else frozenset()))
    if not pipes:
        return []
    narrow = any(pipe.startswith("tensor.") and "tf32" not in pipe for pipe in pipes)
    return [(_EXACT, "")] if narrow else list(admitted_precisions(facts))


def _convolves(facts: Facts) -> bool:
    """Tell whether convolutions may gain: the library's run on the scalar pipe.

    On tensor cores it is several times as fast as a product of pixels and filters.
    """
    on_tensor_cores = any(pipe.startswith("tensor.") for pipe in _pipes(facts, _CONVOLUTIONS))
    return facts.brief.result is None or not on_tensor_cores


def _pipes(facts: Facts, operators: frozenset[str]) -> set[str]:
    """Return the pipes on which recorded operators of PyTorch compute."""
    result = facts.brief.result
    kernels = () if result is None else result.analysis.kernels
    return {
        pipe
        for kernel in kernels
        if kernel.launch.library and kernel.launch.name in operators
        if kernel.facts.requests is not None
        for pipe in kernel.facts.requests.operations
    }


# ------------------------------------------------------------------------------- types


@dataclass(frozen=True)
class _Type:
    """Type of a tensor, as far as the launcher's parameters tell.

    Attributes:
        rank: its dimensions.
        dtype: of its elements, as code of the launcher's parameters.
        tensor: what the launcher's text says.
        conditions: of the parameters, under which that is so.
        tensors: the parameters' tensors that it comes from, as code.
    """

    rank: int
    dtype: str
    tensor: LauncherTensor
    conditions: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()


@dataclass
class _Types:
    """Finds the types of a launcher's expressions.

    Attributes:
        launcher: whose expressions.
        own: results of rewritten products, by name.
    """

    launcher: cst.FunctionDef
    own: dict[str, LauncherTensor] = field(default_factory=dict)

    @property
    def params(self) -> set[str]:
        """Parameters that keep their value."""
        names = {p.name.value for p in self.launcher.params.params}
        return names - set(assigned_names(*statements_of(self.launcher)))

    def of(self, node: cst.BaseExpression, rank: int) -> _Type | None:
        """Return the type of an expression; parameters are assumed to have `rank` dimensions."""
        tensor = launcher_tensor(node, self.launcher, self.own)
        if tensor.origin is None:
            names = names_within(parse_expression(tensor.dtype))
            is_plain = tensor.rank is not None and names <= self.params | {"torch"}
            return _Type(tensor.rank, tensor.dtype, tensor) if is_plain and tensor.rank else None
        code = render_code(tensor.origin)
        if not self.is_param(tensor.origin) or (tensor.rank is None and not tensor.keeps_rank):
            return None
        assumed = () if tensor.rank is not None else (f"{code}.dim() == {rank}",)
        conditions = (f"isinstance({code}, torch.Tensor)", *assumed)
        return _Type(tensor.rank or rank, f"{code}.dtype", tensor, conditions, (code,))

    def is_param(self, node: cst.BaseExpression) -> bool:
        """Tell whether an expression is a parameter, or an attribute of one."""
        while isinstance(node, cst.Attribute) and node.attr.value not in _TRANSPOSED:
            node = node.value
        return isinstance(node, cst.Name) and node.value in self.params and not node.lpar


# ------------------------------------------------------------------------------- products


@dataclass(frozen=True)
class _Product:
    """A product of PyTorch.

    Attributes:
        call: the expression.
        lhs, rhs: operands.
        bias: is added to each row; ``None`` if nothing is.
        is_linear: whether the right operand has the result's columns as its rows.
    """

    call: cst.BaseExpression
    lhs: cst.BaseExpression
    rhs: cst.BaseExpression
    bias: cst.BaseExpression | None = None
    is_linear: bool = False


def _as_product(node: cst.CSTNode) -> _Product | None:
    if isinstance(node, cst.BinaryOperation):
        is_product = isinstance(node.operator, cst.MatrixMultiply)
        return _Product(node, node.left, node.right) if is_product else None
    if not isinstance(node, cst.Call) or any(arg.star for arg in node.args):
        return None
    name, plain = called_name(node), all(arg.keyword is None for arg in node.args)
    if name in _LINEAR:
        first, second = argument_of(node, 0, "input"), argument_of(node, 1, "weight")
        bias = argument_of(node, 2, "bias")
        is_none = isinstance(bias, cst.Name) and bias.value == "None"
        if first is None or second is None:
            return None
        return _Product(node, first, second, None if is_none else bias, is_linear=True)
    values = call_args(node)
    if name in _FUNCTIONS and plain and len(values) == 2:
        return _Product(node, values[0], values[1])
    if name == "torch.addmm" and plain and len(values) == 3:
        return _Product(node, values[1], values[2], values[0])
    is_method = isinstance(node.func, cst.Attribute) and node.func.attr.value in _METHODS
    if not is_method or not isinstance(node.func, cst.Attribute) or not plain or len(values) != 1:
        return None
    is_own = render_code(node.func.value) != "torch"
    return _Product(node, node.func.value, values[0]) if is_own else None


def _with_own_products(text: KernelText, precision: str, *, convolves: bool) -> tuple[str, int]:
    """Return the file whose products are launches, and how many there are."""
    if not {"torch", "triton", "tl"} <= text.names or _is_traced(text):
        return "", 0
    writer = _Writer(text, precision, convolves=convolves)
    body = [s for statement in statements_of(text.launcher) for s in writer.rewritten(statement)]
    if not writer.functions:
        return "", 0
    launcher = with_body(text.launcher, with_direct_names(body))
    tree = with_otherwise(text, launcher, writer.condition, writer.functions)
    return ("", 0) if tree is None else (render_module(tree), len(writer.functions))


def _is_traced(text: KernelText) -> bool:
    """Tell whether the file differentiates: a launch has no gradient."""
    words = {node.attr.value for node in nodes_within(text.tree) if isinstance(node, cst.Attribute)}
    return bool(words & {"autograd", "backward", "grad"})


class _Writer:
    """Writes products of a launcher as launches.

    Args:
        text: the file.
        precision: of fp32 products, in Triton's words.
        convolves: whether convolutions are launches, too.
    """

    def __init__(self, text: KernelText, precision: str, *, convolves: bool) -> None:
        self._text, self._precision, self._convolves = text, precision, convolves
        self._types = _Types(text.launcher)
        self._taken = set(text.names)
        self.functions: list[cst.FunctionDef] = []
        self._conditions: list[str] = []
        self._tensors: list[str] = []

    @property
    def condition(self) -> str:
        """Condition on the launcher's parameters under which launches do what PyTorch did."""
        grads = " or ".join(dict.fromkeys(f"{code}.requires_grad" for code in self._tensors))
        gradless = f"not (torch.is_grad_enabled() and ({grads}))"
        plain = [*self._conditions, "not torch.is_autocast_enabled()", gradless]
        return " and ".join(dict.fromkeys(plain))

    def rewritten(self, statement: cst.BaseStatement) -> list[cst.BaseStatement]:
        """Return a statement with launches ahead of it for the products in it."""
        if not isinstance(statement, cst.SimpleStatementLine) or _is_out_of_order(statement):
            return [statement]
        ahead: list[cst.BaseStatement] = []
        while True:
            products = [p for node in nodes_within(statement) if (p := self._operation(node))]
            for product in reversed(products):  # the innermost first
                if _calls_before(statement, product.call):
                    continue
                if isinstance(product, Convolution):
                    lines = self._convolved(product, statement)
                else:
                    lines = self._launched(product, statement)
                if lines is not None:
                    name, lines_ahead = lines
                    ahead += lines_ahead
                    binding = single_assignment(statement)
                    if binding is not None and binding.target == name:
                        return ahead
                    statement = replace_each(statement, [(product.call, cst.Name(name))])
                    break
            else:
                return [*ahead, statement]

    def _operation(self, node: cst.CSTNode) -> _Product | Convolution | None:
        product = _as_product(node)
        if product is not None or not self._convolves:
            return product
        return as_convolution(node, self._types.is_param)

    def _convolved(
        self, convolution: Convolution, statement: cst.BaseStatement
    ) -> tuple[str, list[cst.BaseStatement]] | None:
        """Return the name of a convolution's result, and the statements that compute it."""
        lhs, rhs, rank = convolution.lhs, convolution.rhs, convolution.rank
        first, second = self._types.of(lhs, rank), self._types.of(rhs, rank)
        if first is None or second is None or not self._types.is_param(rhs):
            return None
        types, fits = [first, second], list(convolution.conditions)
        if first.rank != rank or second.rank != rank:
            return None
        filters = render_code(rhs)
        if _may_turn(expand_names(lhs, lambda n: launcher_definition(n, self._types.launcher))):
            return None
        # of images whose channels come last, PyTorch's results have them last, too
        fits += [f"{code}.is_contiguous()" for code in (*first.tensors, filters)]
        if convolution.bias is not None:
            bias = self._added(convolution.bias, f"{filters}.shape[0]")
            if bias is None:
                return None
            types, fits = [*types, bias[0]], [*fits, *bias[1]]
        if self._types.is_param(lhs):
            fits.append(f"{render_code(lhs)}.shape[1] == {filters}.shape[1]")
        self._rely_on(types, fits)
        name = self._name_of(convolution.call, statement, first)
        operands, lines = self._operands(name, (lhs, rhs, convolution.bias))
        x, w = operands["lhs"], operands["rhs"]
        if not self._types.is_param(lhs):  # PyTorch raises as well
            lines.append(parse_statement(f"assert {x}.shape[1] == {w}.shape[1]"))
        sizes, arguments, grid = convolution_arguments(convolution, operands, name)
        like = f"dtype={x}.dtype, device={x}.device"
        lines.append(parse_statement(f"{name} = torch.empty({sizes}, {like})"))
        function = free_name(f"{name}_kernel", self._taken)
        self.functions.append(convolution_function(function, arguments, self._precision))
        constants = [p.name.value for p in self.functions[-1].params.params if p.annotation]
        lines.append(launch_line(function, grid, arguments, {"num_warps": "4"}, constants))
        return name, lines

    def _added(self, bias: cst.BaseExpression, count: str) -> tuple[_Type, list[str]] | None:
        """Return the type of a bias, and that it has one number for each of so many columns."""
        of = self._types.of(bias, 1) if self._types.is_param(bias) else None
        code = render_code(bias)
        fits = [f"{code}.is_contiguous()", f"{code}.numel() == {count}"]
        return None if of is None or of.rank != 1 else (of, fits)

    def _operands(
        self, name: str, nodes: Sequence[cst.BaseExpression | None]
    ) -> tuple[dict[str, str], list[cst.BaseStatement]]:
        """Return a name for each operand, and the statements that assign those that have none."""
        operands: dict[str, str] = {}
        lines: list[cst.BaseStatement] = []
        for word, node in zip(("lhs", "rhs", "bias"), nodes, strict=True):
            if node is None:
                continue
            operands[word] = code = render_code(node)
            if not isinstance(node, cst.Name):
                operands[word] = free_name(f"{name}_{word}", self._taken)
                lines.append(parse_statement(f"{operands[word]} = {code}"))
        return operands, lines

    def _launched(
        self, product: _Product, statement: cst.BaseStatement
    ) -> tuple[str, list[cst.BaseStatement]] | None:
        """Return the name of a product's result, and the statements that compute it."""
        rank = 3 if _is_batched(product) else 2
        first, second = self._types.of(product.lhs, rank), self._types.of(product.rhs, rank)
        if first is None or second is None:
            return None
        if not _is_batched(product) and first.rank > second.rank == 2:
            return self._with_rows(product, statement, first)
        if first.rank != second.rank or first.rank not in (2, 3):
            return None
        if first.rank == 3 and not _is_batched(product):  # others may broadcast the first axis
            return None
        types, fits = [first, second], list[str]()
        if product.bias is not None:
            columns = f"{render_code(product.rhs)}.shape[{0 if product.is_linear else 1}]"
            bias = self._added(product.bias, columns)
            if bias is None or not self._types.is_param(product.rhs):
                return None
            types, fits = [*types, bias[0]], bias[1]
        if self._are_params(product):
            axes = first.rank - 1, second.rank - (1 if product.is_linear else 2)
            sizes = zip((product.lhs, product.rhs), axes, strict=True)
            extents = [f"{render_code(node)}.shape[{axis}]" for node, axis in sizes]
            fits.append(" == ".join(extents))
            if first.rank == 3:
                batches = (f"{render_code(n)}.shape[0]" for n in (product.lhs, product.rhs))
                fits += [" == ".join(batches), f"{render_code(product.lhs)}.shape[0] < {_MOST}"]
        self._rely_on(types, fits)
        name = self._name_of(product.call, statement, first)
        return name, list(self._statements(product, name, first.rank))

    def _with_rows(
        self, product: _Product, statement: cst.BaseStatement, first: _Type
    ) -> tuple[str, list[cst.BaseStatement]] | None:
        """Return the result of a product whose left operand has more axes than a matrix.

        The product is that of the matrix of all its rows.
        """
        rows = cst.Name(free_name("rows", self._taken))
        self._types.own[rows.value] = replace(first.tensor, rank=2, keeps_rank=False)
        inner = replace(product, call=rows, lhs=rows)
        launched = self._launched(inner, statement)
        if launched is None:
            return None
        name = self._name_of(product.call, statement, first)
        operands, lines = self._operands(name, (product.lhs, None, None))
        x, result = operands["lhs"], launched[0]
        lines.append(parse_statement(f"{rows.value} = {x}.reshape(-1, {x}.shape[-1])"))
        view = parse_statement(f"{name} = {result}.view(*{x}.shape[:-1], {result}.shape[1])")
        return name, [*lines, *launched[1], view]

    def _rely_on(self, types: Sequence[_Type], fits: Sequence[str]) -> None:
        """Add conditions: that operands have these types, all floats alike, and that they fit."""
        first = types[0]
        same = [f"{other.dtype} == {first.dtype}" for other in types if other.dtype != first.dtype]
        floats = "(torch.float16, torch.bfloat16, torch.float32)"
        conditions = [code for t in types for code in t.conditions] + list(fits)
        self._conditions += [*conditions, *same, f"{first.dtype} in {floats}"]
        self._tensors += [code for t in types for code in t.tensors]

    def _name_of(self, call: cst.BaseExpression, statement: cst.BaseStatement, like: _Type) -> str:
        """Return the name of a result, of the type of an operand."""
        binding = single_assignment(statement)
        is_all = binding is not None and binding.value is call and not binding.operator
        name = binding.target if binding and is_all else free_name("product", self._taken)
        self._types.own[name] = replace(like.tensor, rank=like.rank, keeps_rank=False)
        return name

    def _are_params(self, product: _Product) -> bool:
        """Tell whether operands are parameters, so that the guard can compare their sizes."""
        return self._types.is_param(product.lhs) and self._types.is_param(product.rhs)

    def _statements(self, product: _Product, name: str, rank: int) -> Iterator[cst.BaseStatement]:
        operands, lines = self._operands(name, (product.lhs, product.rhs, product.bias))
        yield from lines
        first, second = operands["lhs"], operands["rhs"]
        over, to = (-1, -2) if product.is_linear else (-2, -1)
        if not self._are_params(product):  # PyTorch raises as well, but for many batches
            sides = [f"{first}.shape[{rank - 1}] == {second}.shape[{over + rank}]"]
            sides += [f"{first}.shape[0] == {second}.shape[0] < {_MOST}"] if rank == 3 else []
            yield parse_statement(f"assert {' and '.join(sides)}")
        sizes = [f"{first}.shape[{axis}]" for axis in range(rank - 1)]
        sizes.append(f"{second}.shape[{to + rank}]")
        like = f"dtype={first}.dtype, device={first}.device"
        yield parse_statement(f"{name} = torch.empty(({', '.join(sizes)}), {like})")
        over, to = over + rank, to + rank
        strides = [f"{first}.stride({axis})" for axis in range(rank)]
        batch = [strides.pop(0), f"{second}.stride(0)", f"{name}.stride(0)"] if rank == 3 else []
        strides += [f"{second}.stride({over})", f"{second}.stride({to})"]
        rows, columns = sizes[-2:]
        function = free_name(f"{name}_kernel", self._taken)
        values = [first, second, *([operands["bias"]] if "bias" in operands else []), name]
        values += [
            rows,
            columns,
            f"{first}.shape[{rank - 1}]",
            *strides,
            f"{name}.stride({rank - 2})",
        ]
        definition = _function(function, "bias" in operands, bool(batch), self._precision)
        self.functions.append(definition)
        names = [p.name.value for p in definition.params.params]
        arguments = dict(zip(names, [*values, *batch, "128", "128", "32"], strict=True))
        grid = f"triton.cdiv({rows}, 128), triton.cdiv({columns}, 128)"
        grid += f", {first}.shape[0]" if batch else ""
        yield launch_line(function, f"({grid})", arguments, {"num_warps": "8"}, names[-3:])


_TURNS = frozenset("permute transpose movedim swapaxes memory_format t T mT as_strided".split())


def _may_turn(node: cst.BaseExpression) -> bool:
    """Tell whether an expression may lay out its tensor in another order of axes."""
    words = {n.attr.value for n in nodes_within(node) if isinstance(n, cst.Attribute)}
    keywords = {n.keyword.value for n in nodes_within(node) if isinstance(n, cst.Arg) and n.keyword}
    return bool((words | keywords) & _TURNS)


def _is_batched(product: _Product) -> bool:
    return isinstance(product.call, cst.Call) and called_name(product.call).endswith("bmm")


def _is_out_of_order(statement: cst.SimpleStatementLine) -> bool:
    """Tell whether parts of a statement may not run, or run later."""
    kinds = (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.CompFor, cst.NamedExpr)
    return any(isinstance(node, kinds) for node in nodes_within(statement))


_BUILTINS = frozenset(("len", "min", "max", "int", "float"))
_LANGUAGES = ("tl", "triton", "math")


def _calls_before(statement: cst.CSTNode, product: cst.CSTNode) -> bool:
    """Tell whether a statement, ahead of a product, calls what may change an operand."""
    for node in nodes_within(statement):
        if node is product:
            return False
        is_ahead = isinstance(node, cst.Call) and all(p is not product for p in nodes_within(node))
        if is_ahead and isinstance(node, cst.Call) and _may_write(node):
            return True
    return False


def _may_write(call: cst.Call) -> bool:
    """Tell whether a call may change a tensor: so may all but operators that are known to read."""
    owner, _, word = called_name(call).rpartition(".")
    if {arg.keyword.value for arg in call.args if arg.keyword} & {"out", "inplace"}:
        return True
    if any(render_code(arg.value) == "True" for arg in call.args):
        return True  # it may say that an activation is in place
    if not owner:
        return word not in _BUILTINS
    if owner.split(".")[0] in _LANGUAGES or word in SAME_TYPE or word in TENSOR_QUERIES:
        return False
    record = OPERATORS.get(f"aten.{word}")
    return record is None or bool(record.in_place_of or record.writes)


def _function(function: str, has_bias: bool, is_batched: bool, precision: str) -> cst.FunctionDef:
    """Return the Triton function of a product, in the plain form that other rewrites read."""
    bias = ["bias_ptr"] if has_bias else []
    batch = ["stride_ab", "stride_bb", "stride_cb"] if is_batched else []
    params = ["a_ptr", "b_ptr", *bias, "c_ptr", "M", "N", "K", "stride_am", "stride_ak"]
    params += ["stride_bk", "stride_bn", "stride_cm", *batch]
    params += [f"BLOCK_{axis}: tl.constexpr" for axis in "MNK"]
    listed = "".join(f"    {param},\n" for param in params)
    text = f"\n\n@triton.jit\ndef {function}(\n{listed}):\n{_BODY_START}"
    if is_batched:
        text += _BATCHED
    text += _BODY_LOOP.replace("PRECISION", precision)
    text += _BIAS if has_bias else ""
    text += _BODY_END
    for name in "abc":
        text = text.replace(f"{name}_base", f"{name}_batch" if is_batched else f"{name}_ptr")
    return cst.ensure_type(parse_statements(text)[0], cst.FunctionDef)


_BODY_START = """\
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
"""
_BATCHED = """\
    batch = tl.program_id(2).to(tl.int64)
    a_batch = a_ptr + batch * stride_ab
    b_batch = b_ptr + batch * stride_bb
    c_batch = c_ptr + batch * stride_cb
"""
_BODY_LOOP = """\
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        a = tl.load(
            a_base
            + offs_m[:, None].to(tl.int64) * stride_am
            + offs_k[None, :].to(tl.int64) * stride_ak,
            mask=(offs_m[:, None] < M) & (offs_k[None, :] < K),
            other=0.0,
        )
        b = tl.load(
            b_base
            + offs_k[:, None].to(tl.int64) * stride_bk
            + offs_n[None, :].to(tl.int64) * stride_bn,
            mask=(offs_k[:, None] < K) & (offs_n[None, :] < N),
            other=0.0,
        )
        acc += tl.dot(a, b, input_precision="PRECISION")
"""
_BIAS = """\
    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0)
    acc += bias[None, :]
"""
_BODY_END = """\
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(
        c_base + offs_m[:, None].to(tl.int64) * stride_cm + offs_n[None, :],
        acc.to(c_ptr.dtype.element_ty),
        mask=mask,
    )
"""
