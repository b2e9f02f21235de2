"""Write cuTile's tile IR as Triton's GPU IR, which is then followed as any Triton kernel is.

cuTile's compiler keeps its IR as objects of Python: tiles without threads, loops and branches as
regions. Triton's IR has the same tiles, and layouts that say which thread holds what. So each
operation becomes one or a few of Triton's; a layout is chosen by SolKit, as the machine code alone
knows the compiler's. What the machine code says decides how a tile is moved: by TMA, or by
accesses of threads (`Machine`).

The only module that knows the classes of ``cuda.tile._ir``; it imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solkit.adapters.cutile_exits import TileIrError, is_tile, without_exits
from solkit.adapters.cutile_types import (
    blocked_layout,
    conversion_between,
    element_bits,
    element_of,
    is_float,
    is_unsigned,
    pointee_bits,
    scaled_format,
    shared_type,
    tile_bytes,
)

_OWN = "/cuda/tile/"
"""Folder of cuTile's own functions, which are inlined."""
_MMA = (
    "#ttg.nvidia_mma<{versionMajor = %d, versionMinor = 0, warpsPerCTA = [%s], instrShape = [%s]}>"
)


@dataclass(frozen=True)
class Machine:
    """Facts that the machine code gives of a kernel.

    Attributes:
        warps: of a block that compute, a power of two.
        major: of the compute capability.
        bulk_lines: ``(file, line)`` of the source where a bulk copy (TMA) is made.
        has_tensor_cores: whether it multiplies matrices on tensor cores.
        is_warp_group: whether it does so by warp groups (Hopper's ``wgmma``).
    """

    warps: int
    major: int
    bulk_lines: frozenset[tuple[str, int]] = frozenset()
    has_tensor_cores: bool = True
    is_warp_group: bool = False


def triton_ir(name: str, body: Any, values: Sequence[int | None], machine: Machine) -> str:
    """Return a kernel as a module of Triton's GPU IR.

    Its arguments are the parameters without a value: pointers and scalars.

    Args:
        name: of the kernel.
        body: its block in cuTile's IR, after all passes.
        values: of the block's parameters, where a launch fixes them: shapes and strides of arrays.
        machine: what the machine code says.

    Raises:
        TileIrError: an operation is not known, or the parameters are others.
    """
    if len(values) != len(body.params):
        raise TileIrError(f"{name} has {len(body.params)} parameters, its launch {len(values)}")
    pairs = zip((var.name for var in body.params), values)
    numbers = {parameter: value for parameter, value in pairs if value is not None}
    return _Writer(machine, numbers).module(name, body)


def loop_tile_bytes(body: Any) -> int:
    """Return bytes of the tiles that the loop with the most of them loads in an iteration."""
    most = 0
    for operation in body:
        for block in operation.nested_blocks:
            most = max(most, loop_tile_bytes(block))
        if operation.op == "loop":
            loads = (inner for inner in operation.body if inner.op in ("tile_load", "load_pointer"))
            tiles = (load.result_vars[0].get_type() for load in loads)
            most = max(most, sum(map(tile_bytes, tiles)))
    return most


@dataclass
class _View:
    """An array, or a view of it by tiles.

    Attributes:
        base: name of its pointer.
        element: of the array.
        sizes, strides: names of values, in elements.
        tile: shape of a tile; empty of an array.
        steps: distance of two tiles, by dimension.
        sparse: the dimension along which a tile of indices says the places; -1 for none.
    """

    base: str
    element: str
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    tile: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    sparse: int = -1


_INTEGERS = {
    **{"add": "addi", "sub": "subi", "mul": "muli", "min": "minsi", "max": "maxsi"},
    **{"floordiv": "floordivsi", "cdiv": "ceildivsi", "c_mod": "remsi", "c_div": "divsi"},
    **{"mod": "remsi", "mulhi": "mulsi_extended"},
}
_UNSIGNED = {
    **{"min": "minui", "max": "maxui", "floordiv": "divui", "cdiv": "ceildivui"},
    **{"c_mod": "remui", "c_div": "divui", "mod": "remui"},
}
_FLOATS = {
    **{"add": "arith.addf", "sub": "arith.subf", "mul": "arith.mulf", "truediv": "arith.divf"},
    **{"floordiv": "arith.divf", "min": "arith.minimumf", "max": "arith.maximumf"},
    **{"c_mod": "arith.remf", "mod": "arith.remf", "pow": "math.powf", "atan2": "math.atan2"},
}
_UNARY = {
    **{"exp": "math.exp", "exp2": "math.exp2", "log": "math.log", "log2": "math.log2"},
    **{"sqrt": "math.sqrt", "rsqrt": "math.rsqrt", "sin": "math.sin", "cos": "math.cos"},
    **{"tanh": "math.tanh", "floor": "math.floor", "ceil": "math.ceil", "abs": "math.absf"},
    **{"sinh": "math.tanh", "cosh": "math.tanh", "tan": "math.sin", "neg": "arith.negf"},
}
"""By name of the function. A hyperbolic sine or a tangent costs about what its relative does."""
_INTEGER_UNARY = {
    **{"neg": (0, "subi"), "abs": (0, "maxsi")},
    **dict.fromkeys(("invert", "bitwise_not"), (-1, "xori")),
}
"""By name: the constant that an operand is combined with, and the operation. ``abs`` is the maximum
of the operand and its negative."""
_PREDICATES = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}
_ATOMICS = {
    **{"ADD_INT": "add", "ADD_FLOAT": "fadd", "BITWISE_AND": "and", "BITWISE_OR": "or"},
    **{"BITWISE_XOR": "xor", "MAX_SIGNED_INT": "max", "MIN_SIGNED_INT": "min"},
    **{"MAX_UNSIGNED_INT": "umax", "MIN_UNSIGNED_INT": "umin", "EXCHANGE": "exch"},
}


@dataclass
class _Writer:
    """Writes one kernel, an operation after the other.

    Attributes:
        machine: what the machine code says.
        numbers: values that are known, by name.
        lines: of the text so far.
        layouts: aliases by layout.
        views: arrays and views by name.
        here: source location of the operation that is written.
        new_names: counts the names that are made up.
        natural: names of integers that are known not to be negative.
    """

    machine: Machine
    numbers: dict[str, int]
    lines: list[str] = field(default_factory=list)
    layouts: dict[str, str] = field(default_factory=dict)
    views: dict[str, _View] = field(default_factory=dict)
    here: str = ""
    place: tuple[str, int] = ("", 0)
    new_names: int = 0
    natural: set[str] = field(default_factory=set)

    def module(self, name: str, body: Any) -> str:
        """Return the whole text."""
        parameters = [var for var in body.params if var.name not in self.numbers]
        listed = ", ".join(f"%{var.name}: {element_of(var.get_type())}" for var in parameters)
        for var in body.params:
            if var.name in self.numbers:
                kind = element_of(var.get_type())
                self._put(f"%{var.name} = arith.constant {self.numbers[var.name]} : {kind}")
        self.block(without_exits(body))
        warps = f'"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {self.machine.warps} : i32'
        head = [f"{alias} = {layout}" for layout, alias in self.layouts.items()]
        opening = [f"module attributes {{{warps}}} {{", f"tt.func public @{name}({listed}) {{"]
        return "\n".join([*head, *opening, *self.lines, "}", "}", ""])

    # ------------------------------------------------------------------------------------ text

    def _put(self, line: str) -> None:
        self.lines.append(f"{line}{self.here}")

    def _new(self) -> str:
        self.new_names += 1
        return f"%solkit_{self.new_names}"

    def _make(self, operation: str) -> str:
        """Write an operation with one result, and return its name."""
        name = self._new()
        self._put(f"{name} = {operation}")
        return name

    def _constant(self, value: int, element: str = "i64") -> str:
        return self._make(f"arith.constant {value} : {element}")

    def _tensor(self, shape: Sequence[int], element: str, fast: int = -1) -> str:
        """Return a type; `fast` is the dimension along which memory is contiguous."""
        if not shape:
            return element
        bits = pointee_bits(element) if element.startswith("!tt.ptr") else element_bits(element)
        layout = self._alias(
            blocked_layout(tuple(shape), bits, self.machine.warps, fast % len(shape))
        )
        return f"tensor<{'x'.join(map(str, shape))}x{element}, {layout}>"

    def _alias(self, layout: str) -> str:
        return self.layouts.setdefault(layout, f"#solkit{len(self.layouts)}")

    def _type(self, var: Any) -> str:
        kind = var.get_type()
        return self._tensor(kind.shape, element_of(kind))

    # ------------------------------------------------------------------------------ control flow

    def block(self, block: Any) -> None:
        """Write the operations of a block."""
        for operation in block:
            self._locate(operation)
            write = _OPERATIONS.get(operation.op)
            if write is None:
                self._unknown(operation)
            else:
                write(self, operation)
            if _is_natural(operation, self.natural):
                self.natural.update(var.name for var in operation.result_vars)

    def _locate(self, operation: Any) -> None:
        loc = operation.loc
        while loc is not None and loc.call_site is not None and _OWN in (loc.filename or ""):
            loc = loc.call_site
        if loc is None or not loc.filename or loc.line is None:
            return
        # without a column: the line table of the machine code has none, either
        self.here = f' loc("{loc.filename}":{loc.line}:0)'
        self.place = (Path(loc.filename).name, int(loc.line))

    def _unknown(self, operation: Any) -> None:
        """Write an operation whose results nobody can know; it accesses no memory."""
        if operation.memory_effect.name != "NONE":
            raise TileIrError(f"{operation.op} is an access that is not known")
        for var in operation.result_vars:
            if is_tile(var):
                self._put(f"%{var.name} = cutile.{operation.op} : {self._type(var)}")

    def _loop(self, loop: Any) -> None:
        if loop.is_for_loop:
            self._for(loop)
        else:
            self._while(loop)

    def _for(self, loop: Any) -> None:
        pairs = list(_tiles(zip(loop.body_vars, loop.initial_values)))
        carried = ", ".join(f"%{var.name} = %{start.name}" for var, start in pairs)
        low, high, step = (f"%{var.name}" for var in (loop.start, loop.stop, loop.step))
        head = f"scf.for %{loop.induction_var.name} = {low} to {high} step {step}"
        kinds = ", ".join(self._type(var) for var, _ in pairs)
        carrying = f" iter_args({carried}) -> ({kinds}) " if pairs else " "
        if loop.start.name in self.natural:
            self.natural.add(loop.induction_var.name)
        self._put_bare(f"{self._results(loop)}{head}{carrying} : i32 {{")
        self.block(loop.body)
        self._put("}")

    def _while(self, loop: Any) -> None:
        """Write a loop that a branch with ``break`` leaves: what is before it is the condition.

        Raises:
            TileIrError: it has another form.
        """
        before, leaving, after = _parts_of_while(loop.body)
        broken, running = _branches(leaving)
        pairs = list(_tiles(zip(loop.body_vars, loop.initial_values)))
        carried = ", ".join(f"%{var.name} = %{start.name}" for var, start in pairs)
        kinds = ", ".join(self._type(var) for var, _ in pairs)
        self._put_bare(f"{self._results(loop)}scf.while ({carried}) : ({kinds}) -> ({kinds}) {{")
        self.block(before)
        leaves = f"%{leaving.cond.name}"
        if broken is leaving.then_block:
            leaves = self._make(f"arith.xori {leaves}, {self._constant(1, 'i1')} : i1")
        self.block(list(broken)[:-1])
        results = list(_tiles(zip(list(broken)[-1].values, loop.body_vars)))
        listed = ", ".join(f"%{value.name}" for value, _ in results)
        self._put(f"scf.condition({leaves}) {listed} : {kinds}")
        self._put_bare("} do {")
        inside = ", ".join(f"%{var.name}.next: {self._type(var)}" for var, _ in pairs)
        self._put_bare(f"^bb0({inside}):")
        self.block([op for op in running if op.op not in ("end_branch",)])
        if running and list(running)[-1].op == "end_branch":
            for var, value in _tiles(zip(leaving.result_vars, list(running)[-1].outputs)):
                self._put(f"%{var.name} = tt.bitcast %{value.name} : {self._type(var)}")
            self.block(after)
        self._put("}")

    def _if(self, branch: Any) -> None:
        kinds = ", ".join(self._type(var) for var in branch.result_vars if is_tile(var))
        typed = f" -> ({kinds})" if kinds else ""
        self._put_bare(f"{self._results(branch)}scf.if %{branch.cond.name}{typed} {{")
        self.block(branch.then_block)
        self._put_bare("} else {")
        self.block(branch.else_block)
        self._put("}")

    def _results(self, operation: Any) -> str:
        names = ", ".join(f"%{var.name}" for var in operation.result_vars if is_tile(var))
        return f"{names} = " if names else ""

    def _put_bare(self, line: str) -> None:
        self.lines.append(line)

    def _yield(self, operation: Any) -> None:
        values = operation.outputs if operation.op == "end_branch" else operation.values
        tiles = [var for var in values if is_tile(var)]
        if tiles:
            names = ", ".join(f"%{var.name}" for var in tiles)
            self._put(f"scf.yield {names} : {', '.join(map(self._type, tiles))}")

    def _break(self, operation: Any) -> None:
        raise TileIrError(f"a {operation.op} inside of a branch is not followed")

    def _return(self, operation: Any) -> None:
        del operation
        self._put("tt.return")

    # --------------------------------------------------------------------------------- arithmetic

    def _typed_const(self, operation: Any) -> None:
        var, value = operation.result_vars[0], operation.value
        if not is_tile(var):
            return
        kind = var.get_type()
        if isinstance(value, int) and not kind.shape:
            self.numbers[var.name] = int(value)
        if is_float(kind):
            text = f"{float(value):e}"
        else:
            text = str(bool(value)).lower() if element_of(kind) == "i1" else str(int(value))
        text = f"dense<{text}>" if kind.shape else text
        typed = "" if element_of(kind) == "i1" and not kind.shape else f" : {self._type(var)}"
        self._put(f"%{var.name} = arith.constant {text}{typed}")

    def _same(self, operation: Any) -> None:
        """Write a result that is an operand."""
        var, source = operation.result_vars[0], _first_operand(operation)
        if not is_tile(var):
            self.views[var.name] = self.views[source.name]
            return
        if source.name in self.numbers:
            self.numbers[var.name] = self.numbers[source.name]
        self._put(f"%{var.name} = tt.bitcast %{source.name} : {self._type(var)}")

    def _binary(self, operation: Any) -> None:
        kind, fn = operation.result_vars[0].get_type(), operation.fn
        names = {**_INTEGERS, **(_UNSIGNED if is_unsigned(kind) else {})}
        name = _FLOATS.get(fn) if is_float(kind) else f"arith.{names[fn]}" if fn in names else None
        self._simple(operation, name or f"cutile.{fn}", (operation.lhs, operation.rhs))

    def _simple(self, operation: Any, name: str, operands: Sequence[Any]) -> None:
        var = operation.result_vars[0]
        listed = ", ".join(f"%{operand.name}" for operand in operands)
        self._put(f"%{var.name} = {name} {listed} : {self._type(var)}")

    def _compare(self, operation: Any) -> None:
        var, kind = operation.result_vars[0], operation.lhs.get_type()
        if is_float(kind):
            name = f"arith.cmpf o{_PREDICATES[operation.fn]}"
        else:
            sign = "" if operation.fn in ("eq", "ne") else "u" if is_unsigned(kind) else "s"
            name = f"arith.cmpi {sign}{_PREDICATES[operation.fn]}"
        sides = f"%{operation.lhs.name}, %{operation.rhs.name}"
        self._put(f"%{var.name} = {name}, {sides} : {self._type(operation.lhs)}")

    def _bitwise(self, operation: Any) -> None:
        name = {"and_": "andi", "or_": "ori", "xor": "xori"}.get(operation.fn, "xori")
        self._simple(operation, f"arith.{name}", (operation.lhs, operation.rhs))

    def _shift(self, operation: Any) -> None:
        unsigned = is_unsigned(operation.result_vars[0].get_type())
        name = "shli" if "l" in operation.fn else "shrui" if unsigned else "shrsi"
        self._simple(operation, f"arith.{name}", (operation.lhs, operation.rhs))

    def _unary(self, operation: Any) -> None:
        kind, fn = operation.result_vars[0].get_type(), operation.fn
        if is_float(kind) or fn not in _INTEGER_UNARY:
            name = _UNARY.get(fn) if is_float(kind) else None
            self._simple(operation, name or f"cutile.{fn}", (operation.operand,))
            return
        start, name = _INTEGER_UNARY[fn]
        number = f"dense<{start}>" if kind.shape else str(start)
        typed = self._type(operation.operand)
        side, operand = self._make(f"arith.constant {number} : {typed}"), operation.operand.name
        if fn == "abs":
            side = self._make(f"arith.subi {side}, %{operand} : {typed}")
        self._put(f"%{operation.result_vars[0].name} = arith.{name} {side}, %{operand} : {typed}")

    def _select(self, operation: Any) -> None:
        var = operation.result_vars[0]
        operands = ", ".join(f"%{v.name}" for v in (operation.cond, operation.x, operation.y))
        self._put(f"%{var.name} = arith.select {operands} : {self._type(var)}")

    def _fma(self, operation: Any) -> None:
        self._simple(operation, "math.fma", (operation.lhs, operation.rhs, operation.acc))

    def _cast(self, operation: Any) -> None:
        var, source = operation.result_vars[0], operation.x
        old, new = source.get_type(), var.get_type()
        before, after = self._type(source), self._type(var)
        name = conversion_between(old, new)
        self._put(f"%{var.name} = {name} %{source.name} : {before} to {after}")

    # ------------------------------------------------------------------------------------- shapes

    def _shape(self, operation: Any) -> None:
        var, source = operation.result_vars[0], operation.x
        old, new = source.get_type().shape, var.get_type().shape
        name = "tt.reshape" if operation.op == "tile_reshape" else "tt.broadcast"
        if not old:
            name = "tt.splat"
        elif not new:
            name = "tt.unsplat"
        self._put(
            f"%{var.name} = {name} %{source.name} : {self._type(source)} -> {self._type(var)}"
        )

    def _transpose(self, operation: Any) -> None:
        var, source = operation.result_vars[0], operation.x
        order = f"{{order = array<i32: {', '.join(map(str, operation.axes))}>}}"
        kinds = f"{self._type(source)} -> {self._type(var)}"
        self._put(f"%{var.name} = tt.trans %{source.name} {order} : {kinds}")

    def _range(self, operation: Any) -> None:
        var = operation.result_vars[0]
        end = var.get_type().shape[0]
        self._put(
            f"%{var.name} = tt.make_range {{end = {end} : i32, start = 0 : i32}} : "
            f"{self._type(var)}"
        )

    def _reduce(self, operation: Any) -> None:
        name = "tt.reduce" if operation.op == "tile_reduce" else "tt.scan"
        sources = ", ".join(f"%{var.name}" for var in operation.xs)
        before = ", ".join(map(self._type, operation.xs))
        after = ", ".join(map(self._type, operation.result_vars))
        named = ", ".join(f"%{var.name}" for var in operation.result_vars)
        self._put_bare(f'{named} = "{name}"({sources}) <{{axis = {operation.axis} : i32}}> ({{')
        inside = ", ".join(f"%{v.name}: {element_of(v.get_type())}" for v in operation.body.params)
        self._put_bare(f"^bb0({inside}):")
        here = self.here
        self.block(list(operation.body)[:-1])
        last = list(operation.body)[-1]
        yielded = last.outputs if hasattr(last, "outputs") else last.values
        names = ", ".join(f"%{var.name}" for var in yielded)
        kinds = ", ".join(element_of(var.get_type()) for var in yielded)
        self._put(f"{name}.return {names} : {kinds}")
        self.here = here
        self._put(f"}}) : ({before}) -> ({after})")

    # ------------------------------------------------------------------------------------ products

    def _product(self, operation: Any) -> None:
        var = operation.result_vars[0]
        a, b = (operand.get_type() for operand in (operation.x, operation.y))
        result = self._product_type(var.get_type(), a)
        if operation.op == "tile_mma_scaled":
            formats = " ".join(
                f"{side} = {scaled_format(k)}" for side, k in (("lhs", a), ("rhs", b))
            )
            operands = f"%{operation.x.name}, %{operation.y.name}, %{operation.acc.name} {formats}"
            kinds = f"{self._type(operation.x)} * {self._type(operation.y)} -> {result}"
            self._put(f"%{var.name} = tt.dot_scaled {operands} : {kinds}")
            return
        operands = f"%{operation.x.name}, %{operation.y.name}, %{operation.acc.name}"
        if self.machine.is_warp_group and len(a.shape) == 2 and "nvidia_mma" in self._of(result):
            kinds = f"{shared_type(a)} * {shared_type(b)} -> {result}"
            self._put(f"%{var.name} = ttng.warp_group_dot {operands} : {kinds}")
            return
        precision = ", inputPrecision = 0" if str(a.dtype) == "tfloat32" else ""
        kinds = f"{self._type(operation.x)} * {self._type(operation.y)} -> {result}"
        self._put(f"%{var.name} = tt.dot {operands}{precision} : {kinds}")

    def _of(self, kind: str) -> str:
        """Return the layout that a type names."""
        alias = kind.rpartition(", ")[2].rstrip(">")
        return next((layout for layout, name in self.layouts.items() if name == alias), "")

    def _product_type(self, kind: Any, factor: Any) -> str:
        """Return a product's type: tensor cores take all factors but fp32."""
        if not self.machine.has_tensor_cores or str(factor.dtype) == "float32":
            return self._tensor(kind.shape, element_of(kind))
        version = {8: 2, 9: 3}.get(self.machine.major, 2)
        columns = min(256, kind.shape[-1])
        instruction = f"16, {columns}, 16" if version == 3 else "16, 8"
        warps = ", ".join(map(str, [*(1,) * (len(kind.shape) - 2), self.machine.warps, 1]))
        layout = self._alias(_MMA % (version, warps, instruction))
        return f"tensor<{'x'.join(map(str, kind.shape))}x{element_of(kind)}, {layout}>"

    # -------------------------------------------------------------------------------------- memory

    def _program(self, operation: Any) -> None:
        name = "get_program_id" if operation.op == "tile_bid" else "get_num_programs"
        self._put(f"%{operation.result_vars[0].name} = tt.{name} {'xyz'[operation.axis]} : i32")

    def _array(self, operation: Any) -> None:
        kind = operation.result_vars[0].get_type()
        sizes, strides = (
            tuple(f"%{var.name}" for var in names) for names in (operation.shape, operation.strides)
        )
        view = _View(f"%{operation.base_ptr.name}", element_of(kind), sizes, strides)
        self.views[operation.result_vars[0].name] = view

    def _list_item(self, operation: Any) -> None:
        """Write an array of a list: pointer, sizes and strides, which memory holds."""
        for var in operation.result_vars:
            self._put(f"%{var.name} = cutile.list_item : {self._type(var)}")

    def _tiled(self, operation: Any) -> None:
        array, kind = self.views[operation.array.name], operation.result_vars[0].get_type()
        rank = len(array.sizes)
        order = getattr(kind, "order", None) or range(rank)
        tile = tuple(kind.tile_shape) or (1,) * rank
        self.views[operation.result_vars[0].name] = _View(
            array.base,
            array.element,
            tuple(array.sizes[d] for d in order),
            tuple(array.strides[d] for d in order),
            tile,
            tuple(getattr(kind, "traversal_steps", None) or tile),
            getattr(kind, "sparse_dim", -1),
        )

    def _tile_counts(self, operation: Any) -> None:
        view = self.views[operation.view.name]
        for var, size, step in zip(operation.result_vars, view.sizes, view.steps, strict=True):
            sides = f"{size}, {self._constant(step, 'i32')}"
            self._put(f"%{var.name} = arith.ceildivsi {sides} : i32")

    def _load_tile(self, operation: Any) -> None:
        view, result = self.views[operation.view.name], operation.result_vars[0]
        starts = self._starts(view, operation.index)
        if self._is_bulk(view):
            box, kind = self._box(view, starts)
            self._put(f"%{result.name} = tt.descriptor_load {box} : {kind} -> {self._type(result)}")
            return
        pointers, mask, kind = self._pointers(view, starts, operation)
        loaded = self._make(f"tt.load {pointers}{mask} : {kind}")
        name = "tt.reshape" if result.get_type().shape else "tt.unsplat"
        before = self._tensor(view.tile, view.element)
        self._put(f"%{result.name} = {name} {loaded} : {before} -> {self._type(result)}")

    def _store_tile(self, operation: Any) -> None:
        view = self.views[operation.view.name]
        starts, value = self._starts(view, operation.index), f"%{operation.tile.name}"
        if self._is_bulk(view):
            box, kind = self._box(view, starts)
            tile = self._type(operation.tile)
            self._put(f"tt.descriptor_store {box}, {value} : {kind}, {tile}")
            return
        pointers, mask, kind = self._pointers(view, starts, operation)
        self._put(f"tt.store {pointers}, {value}{mask} : {kind}")

    def _add_tile(self, operation: Any) -> None:
        view = self.views[operation.view.name]
        starts = self._starts(view, operation.index)
        pointers, mask, kind = self._pointers(view, starts, operation)
        mode, value = _ATOMICS.get(operation.mode.name, "exch"), f"%{operation.update.name}"
        operands = f"{pointers}, {value}{mask}"
        tile = self._type(operation.update)
        self._put(
            f"{self._new()} = tt.atomic_rmw {mode}, relaxed, gpu, {operands} : "
            f"({kind}, {tile}) -> {tile}"
        )

    def _starts(self, view: _View, index: Sequence[Any]) -> list[str]:
        """Return the first element of a tile along each dimension; of a sparse one the indices."""
        starts = []
        for d, var in enumerate(index):
            if d == view.sparse:
                starts.append(f"%{var.name}")
                continue
            sides = f"%{var.name}, {self._constant(1 if view.sparse >= 0 else view.steps[d])}"
            starts.append(self._make(f"arith.muli {sides} : i64"))
        return starts

    def _is_bulk(self, view: _View) -> bool:
        """Tell whether a tile is moved by TMA. Integers may be addresses, which are followed."""
        is_index = view.element in ("i16", "i32", "i64")
        return self.place in self.machine.bulk_lines and view.sparse < 0 and not is_index

    def _fast(self, view: _View) -> int:
        """Return the dimension along which memory is contiguous; the last if that is not known."""
        ones = [d for d, name in enumerate(view.strides) if self.numbers.get(name[1:]) == 1]
        whole = [d for d in ones if view.tile[d] > 1]
        return (whole or ones or [len(view.strides) - 1])[-1]

    def _box(self, view: _View, starts: Sequence[str]) -> tuple[str, str]:
        """Write a descriptor, and return it with a tile's place, and its type."""
        descriptor, order = self._descriptor(view)
        places = ", ".join(starts[d] for d in order)
        return f"{descriptor}[{places}]", self._descriptor_type(view, order)

    def _descriptor(self, view: _View) -> tuple[str, list[int]]:
        """Write a descriptor, and return it with the dimensions in its order, fastest last."""
        fast = self._fast(view)
        order = [d for d in range(len(view.tile)) if d != fast] + [fast]
        size = self._constant(max(element_bits(view.element) // 8, 1))
        box = ", ".join(self._constant(view.tile[d], "i32") for d in order[::-1])
        sizes = ", ".join(view.sizes[d] for d in order[::-1])
        bytes_of = {
            d: self._make(f"arith.muli {view.strides[d]}, {size} : i64") for d in order[:-1]
        }
        strides = ", ".join(bytes_of[d] for d in order[-2::-1])
        slot = self._make("ttg.global_scratch_alloc {nbytes = 128 : i32} : !tt.ptr<i8>")
        kinds = f"(!tt.ptr<i8>, !tt.ptr<{view.element}>) -> ()"
        lists = f"[{box}], [{sizes}], [{strides}], []"
        self._put(f"ttng.tensormap_create {slot}, {view.base}, {lists} : {kinds}")
        kind = f"!tt.ptr<i8> to {self._descriptor_type(view, order)}"
        return self._make(f"ttng.reinterpret_tensor_descriptor {slot} : {kind}"), order

    def _descriptor_type(self, view: _View, order: Sequence[int]) -> str:
        sizes = "x".join(str(view.tile[d]) for d in order)
        return f"!tt.tensordesc<tensor<{sizes}x{view.element}>>"

    def _pointers(self, view: _View, starts: Sequence[str], operation: Any) -> tuple[str, str, str]:
        """Write pointers to the elements of a tile, and the mask that keeps them inside.

        Returns:
            Pointers, a comma and the mask (empty if there is none), and the pointers' type.
        """
        fast = self._fast(view)
        inbounds = getattr(operation, "inbounds", ()) or (False,) * len(view.tile)

        def at(element: str) -> str:
            return self._tensor(view.tile, element, fast)

        offset, mask = "", ""
        for d, start in enumerate(starts):
            places = self._places(view, d, start, fast)
            moved = self._splat(view.strides[d], view.tile, "i64", fast)
            moved = self._make(f"arith.muli {places}, {moved} : {at('i64')}")
            offset = self._make(f"arith.addi {offset}, {moved} : {at('i64')}") if offset else moved
            if not inbounds[d]:
                size = self._splat(view.sizes[d], view.tile, "i64", fast)
                inside = [self._make(f"arith.cmpi slt, {places}, {size} : {at('i64')}")]
                if operation.index[d].name not in self.natural:  # what is before is left out, too
                    zero = self._make(f"arith.constant dense<0> : {at('i64')}")
                    inside.append(self._make(f"arith.cmpi sge, {places}, {zero} : {at('i64')}"))
                for flags in inside:
                    joined = f"arith.andi {mask}, {flags} : {at('i1')}"
                    mask = self._make(joined) if mask else flags
        kind = at(f"!tt.ptr<{view.element}>")
        base = self._splat(view.base, view.tile, f"!tt.ptr<{view.element}>", fast)
        pointers = self._make(f"tt.addptr {base}, {offset} : {kind}, {at('i64')}")
        return pointers, mask and f", {mask}", kind

    def _places(self, view: _View, d: int, start: str, fast: int) -> str:
        """Write the indices of a tile's elements along a dimension."""
        shape = tuple(size if n == d else 1 for n, size in enumerate(view.tile))
        vector, kind = self._tensor((view.tile[d],), "i64"), self._tensor(shape, "i64", fast)
        if d == view.sparse:
            return self._make(f"tt.reshape {start} : {vector} -> {kind}")
        row = f"{{end = {view.tile[d]} : i32, start = 0 : i32}}"
        line = self._make(f"tt.make_range {row} : {vector}")
        line = self._make(f"tt.reshape {line} : {vector} -> {kind}")
        first = self._splat(start, shape, "i64", fast)
        return self._make(f"arith.addi {line}, {first} : {kind}")

    def _splat(self, name: str, shape: Sequence[int], element: str, fast: int) -> str:
        return self._make(f"tt.splat {name} : {element} -> {self._tensor(shape, element, fast)}")

    # ------------------------------------------------------------------------------------ pointers

    def _offset(self, operation: Any) -> None:
        var = operation.result_vars[0]
        kinds = f"{self._type(var)}, {self._type(operation.offset)}"
        operands = f"%{operation.pointer.name}, %{operation.offset.name}"
        self._put(f"%{var.name} = tt.addptr {operands} : {kinds}")

    def _load(self, operation: Any) -> None:
        operands = [operation.pointer, operation.mask]
        if operation.mask is not None:
            operands.append(operation.padding_value)
        listed = ", ".join(f"%{var.name}" for var in operands if var is not None)
        result = operation.result_vars[0].name
        self._put(f"%{result} = tt.load {listed} : {self._type(operation.pointer)}")

    def _store(self, operation: Any) -> None:
        operands = (operation.pointer, operation.value, operation.mask)
        listed = ", ".join(f"%{var.name}" for var in operands if var is not None)
        self._put(f"tt.store {listed} : {self._type(operation.pointer)}")

    def _atomic(self, operation: Any) -> None:
        if operation.op == "tile_atomic_cas":
            name, values = "tt.atomic_cas", [operation.expected, operation.desired]
        else:
            mode = _ATOMICS.get(operation.mode.name, "exch")
            name, values = f"tt.atomic_rmw {mode},", [operation.update]
        masks = [operation.mask] if operation.mask is not None else []
        operands = [operation.pointer, *values, *masks]
        listed = ", ".join(f"%{var.name}" for var in operands)
        kinds = ", ".join(map(self._type, operands))
        result = operation.result_vars[0]
        head = f"%{result.name} = {name} relaxed, gpu"
        self._put(f"{head}, {listed} : ({kinds}) -> {self._type(result)}")

    def _nothing(self, operation: Any) -> None:
        """Write nothing: tokens order accesses, assertions and prints stop nothing."""


def _tiles(pairs: Iterator[tuple[Any, Any]] | Any) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of tiles; tokens are left out."""
    return ((a, b) for a, b in pairs if is_tile(a) and is_tile(b))


_NATURAL = frozenset(("tile_bid", "tile_num_blocks", "num_tiles", "tile_arange"))
_KEEPS_SIGN = frozenset(("assume_div_by", "assign", "tile_astype", "tile_reshape"))
_NATURAL_PARTS = ("add", "mul", "floordiv", "cdiv", "c_div", "mod", "c_mod", "min")


def _is_natural(operation: Any, natural: set[str]) -> bool:
    """Tell whether an operation's integers are not negative, as far as its operands tell."""
    name = operation.op
    if name == "typed_const":
        return isinstance(operation.value, int) and operation.value >= 0
    if name == "assume_bounded" and operation.lower_bound is not None:
        return bool(operation.lower_bound >= 0)
    if name == "raw_binary_arith" and operation.fn in _NATURAL_PARTS:
        return {operation.lhs.name, operation.rhs.name} <= natural
    if name == "raw_where":
        return {operation.x.name, operation.y.name} <= natural
    return name in _NATURAL or (name in _KEEPS_SIGN and _first_operand(operation).name in natural)


def _first_operand(operation: Any) -> Any:
    return next(getattr(operation, n) for n in ("x", "value", "pointer") if hasattr(operation, n))


def _parts_of_while(body: Any) -> tuple[list[Any], Any, list[Any]]:
    """Return what is before a branch that leaves the loop, the branch, and what is after."""
    operations = list(body)
    for at, operation in enumerate(operations):
        if operation.op == "ifelse" and any(
            list(block)[-1].op == "break" for block in operation.nested_blocks
        ):
            return operations[:at], operation, operations[at + 1 :]
    raise TileIrError("a loop without a condition is not followed")


def _branches(leaving: Any) -> tuple[Any, Any]:
    """Return the block that breaks, and the one that goes on."""
    blocks = leaving.then_block, leaving.else_block
    is_first = list(blocks[0])[-1].op == "break"
    return blocks if is_first else blocks[::-1]


_OPERATIONS: Mapping[str, Callable[[_Writer, Any], None]] = {
    **dict.fromkeys(
        (
            *("make_token", "join_tokens", "assert", "tile_printf", "make_dummy"),
            "make_list_view",
            *("grid_dependency_control_wait", "grid_dependency_control_launch_dependents"),
        ),
        _Writer._nothing,
    ),
    **dict.fromkeys(
        ("assume_div_by", "assume_bounded", "assign", "reinterpret_pointer", "tile_bitcast"),
        _Writer._same,
    ),
    **dict.fromkeys(("continue", "end_branch"), _Writer._yield),
    **dict.fromkeys(("tile_reshape", "tile_broadcast"), _Writer._shape),
    **dict.fromkeys(("tile_bid", "tile_num_blocks"), _Writer._program),
    **dict.fromkeys(("tile_reduce", "tile_scan"), _Writer._reduce),
    **dict.fromkeys(("tile_mma", "tile_mma_scaled"), _Writer._product),
    **dict.fromkeys(
        ("make_partition_view", "make_strided_view", "make_gather_scatter_view"), _Writer._tiled
    ),
    **dict.fromkeys(("tile_atomic_rmw", "tile_atomic_cas"), _Writer._atomic),
    "loop": _Writer._loop,
    "ifelse": _Writer._if,
    "break": _Writer._break,
    "return": _Writer._return,
    "typed_const": _Writer._typed_const,
    "raw_binary_arith": _Writer._binary,
    "raw_cmp": _Writer._compare,
    "raw_binary_bitwise": _Writer._bitwise,
    "raw_bitwise_shift": _Writer._shift,
    "raw_where": _Writer._select,
    "unaryop": _Writer._unary,
    "fma": _Writer._fma,
    "tile_astype": _Writer._cast,
    "tile_permute": _Writer._transpose,
    "tile_arange": _Writer._range,
    "make_tensor_view": _Writer._array,
    "get_array_list_item": _Writer._list_item,
    "num_tiles": _Writer._tile_counts,
    "tile_load": _Writer._load_tile,
    "tile_store": _Writer._store_tile,
    "tile_atomic_red_view": _Writer._add_tile,
    "pointer_offset": _Writer._offset,
    "load_pointer": _Writer._load,
    "store_pointer": _Writer._store,
}
"""By cuTile's name of the operation."""
