"""The scalar pipes, and instructions that keep each of them busy.

Each chain of instructions depends on itself, with enough neighbours to hide its latency, in a form
that ptxas cannot shorten: a test counts the instructions in the machine code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

THREADS = 256
"""Threads per program: eight warps."""

UNROLL = 64
"""Pairs of instructions per chain and loop: the loop itself is under 1 % of the instructions."""

CHAINS = 4
"""Per thread, each of two values that feed each other."""

_REGISTER = {"fp32": "f", "fp64": "d", "int32": "r"}  # PTX constraint letters


@dataclass(frozen=True)
class Instruction:
    """One PTX instruction: ``$0`` from itself ``$1``, neighbour ``$2`` and constant ``$3``."""

    ptx: str  # the instruction
    dtype: str  # of ``$0``, ``$1`` and ``$3``, in Triton's notation
    sass: str  # the machine instruction that it becomes, a regular expression
    operations: int = 1  # per thread, as the catalogue counts them (a multiply-add is two)


@dataclass(frozen=True)
class Pipe:
    """Chain of two alternating instructions, and the ceiling in the catalogue that it tests."""

    ceiling: str  # key of `solkit.core.Device.ceilings`
    unit: str  # of the rate
    first: Instruction  # the two instructions of a pair
    second: Instruction

    @property
    def operations(self) -> int:
        """Operations per program and loop."""
        pair = self.first.operations + self.second.operations
        return pair * UNROLL * CHAINS * THREADS

    @property
    def constraints(self) -> tuple[str, str]:
        """The inline-assembly constraints of both instructions."""
        x, y = _REGISTER[self.first.dtype], _REGISTER[self.second.dtype]
        return f"=&{x},{x},{y},{x}", f"=&{y},{y},{x},{y}"

    @property
    def constant(self) -> float:
        """``$3`` of the first, and negated of the second: -1, or an odd multiplier."""
        return 1664525.0 if self.first.dtype == "int32" else -1.0


def _repeated_instruction(ceiling: str, unit: str, instruction: Instruction) -> Pipe:
    return Pipe(ceiling, unit, instruction, instruction)


# x -> c x + c with c = -1 alternates, so that bits toggle as in real data. It reads two registers:
# of three, two would often lie in one bank of the register file.
_FFMA = Instruction("fma.rn.f32 $0, $1, $3, $3;", "fp32", r"FFMA", 2)
_DFMA = Instruction("fma.rn.f64 $0, $1, $3, $3;", "fp64", r"DFMA", 2)
_IMAD = Instruction("mad.lo.s32 $0, $1, $3, $3;", "int32", r"IMAD\b(?!\.IADD|\.MOV)", 2)
_IADD = Instruction("add.s32 $0, $1, $2;", "int32", r"IADD3|IMAD\.IADD")
# x ^ (y & c): PTX ISA, lop3, with a, b and c standing for 0xF0, 0xCC and 0xAA
_LOP3 = Instruction("lop3.b32 $0, $1, $2, $3, 0x78;", "int32", r"LOP3")
# A float and an integer that feed each other, by their bits.
_FFMA_OF_BITS = Instruction(
    "{ .reg .f32 t; mov.b32 t, $2; fma.rn.f32 $0, t, $3, $3; }", "fp32", r"FFMA"
)
_MAX_OF_BITS = Instruction(
    "{ .reg .b32 t; mov.b32 t, $2; max.s32 $0, $1, t; }", "int32", r"VIMNMX|IMNMX"
)
_SFU = {
    "ex2": "{ .reg .f32 t; neg.f32 t, $1; ex2.approx.ftz.f32 $0, t; }",
    "rsqrt": "rsqrt.approx.ftz.f32 $0, $1;",
    "sin": "sin.approx.ftz.f32 $0, $1;",
}

PIPES: dict[str, Pipe] = {
    "fp32": _repeated_instruction("fp32", "FLOP/s", _FFMA),
    "fp64": _repeated_instruction("fp64", "FLOP/s", _DFMA),
    "int32.mad": _repeated_instruction("int32", "op/s", _IMAD),
    "int32.add": _repeated_instruction("int32", "op/s", _IADD),
    "int32.logic": _repeated_instruction("int32", "op/s", _LOP3),
    "int32.mad+logic": Pipe(
        "int32",
        "op/s",
        replace(_IMAD, ptx="mad.lo.s32 $0, $2, $3, $3;"),
        Instruction("xor.b32 $0, $1, $2;", "int32", r"LOP3"),
    ),
    "issue": Pipe("issue", "op/s", _FFMA_OF_BITS, _MAX_OF_BITS),
    **{
        f"sfu.{name}": _repeated_instruction("sfu", "op/s", Instruction(ptx, "fp32", "MUFU"))
        for name, ptx in _SFU.items()
    },
}
"""The measured pairs of instructions, by name."""
