"""Write AMD's accesses of global memory in Triton's IR as the common ones.

``amdg.buffer_load %base[%offsets]`` is ``tt.load`` of ``tt.addptr (tt.splat %base), %offsets``: the
hardware adds, and a masked lane is one whose offset lies outside. The reader of IR
(`solkit.adapters.triton_ir`) then needs nothing of AMD's dialect, and nothing that follows it.
Source: triton/third_party/amd/include/Dialect/TritonAMDGPU/IR/TritonAMDGPUOps.td.
"""

from __future__ import annotations

import re

_ACCESS = re.compile(
    r"^(?P<indent>\s*)(?:(?P<result>%[\w$.\-]+) = )?amd\w*\.buffer_"
    r"(?P<kind>load|store|atomic_rmw|atomic_cas) (?P<rest>.*)$"
)
_PLACE = re.compile(
    r"(?P<before>.*?)(?P<base>%[\w$.\-]+(?:#\d+)?)\[(?P<offsets>%[^\]]+)\](?P<after>.*)"
)
_TAIL = re.compile(r" (?:cacheModifier|stride) = [\w%$.\-#]+")
_TENSOR = re.compile(r"tensor<((?:\d+x)+)([^,]+), (.*)>$")
_LOC = re.compile(r" loc\(.*$")


def common_accesses(text: str) -> str:
    """Return a module's text without accesses that only AMD's dialect has."""
    if ".buffer_" not in text:
        return text
    lines: list[str] = []
    for line in text.splitlines():
        lines += _rewritten(line, len(lines))
    return "\n".join(lines) + "\n"


def _rewritten(line: str, number: int) -> list[str]:
    access = _ACCESS.match(line)
    loc = _LOC.search(line)
    where = loc.group(0) if loc else ""
    place = _PLACE.match(_LOC.sub("", access["rest"])) if access else None
    if access is None or place is None:
        return [line]
    body, _, kind = _TAIL.sub("", place["after"]).rpartition(" : ")
    kind = kind.rpartition(" -> ")[2]  # Triton 3.9 names the pointer's type as well
    tensor = _TENSOR.match(kind.strip())
    if tensor is None:
        return [line]
    sizes, element, layout = tensor.groups()
    pointers = f"tensor<{sizes}!tt.ptr<{element}>, {layout}>"
    offsets = f"tensor<{sizes}i32, {layout}>"
    base, at = f"%amd_base_{number}", f"%amd_at_{number}"
    body = re.sub(r"\s*\{[^{}]*\}\s*$", "", body)
    result = f"{access['result']} = " if access["result"] else ""
    operands, types = _operands(access["kind"], at, place["before"], body, pointers, kind.strip())
    scalar = f"!tt.ptr<{element}>"
    operations = (
        f"{base} = tt.splat {place['base']} : {scalar} -> {pointers}",
        f"{at} = tt.addptr {base}, {place['offsets']} : {pointers}, {offsets}",
        f"{result}tt.{access['kind']} {operands} : {types}",
    )
    return [f"{access['indent']}{operation}{where}" for operation in operations]


def _operands(
    kind: str, at: str, before: str, after: str, pointers: str, tensor: str
) -> tuple[str, str]:
    """Return the operands and types of the common operation."""
    if kind == "load":
        return f"{at}{after}", pointers
    if kind == "store":  # the value stands before the place
        return f"{at}, {before.strip().rstrip(',')}{after}", pointers
    values = re.findall(r"%[\w$.\-]+(?:#\d+)?", before)
    words = before[: before.find("%")].rstrip(", ")
    every = ", ".join((at, *values)) + after
    return f"{words}, {every}", f"({pointers}, {tensor}) -> {tensor}"
