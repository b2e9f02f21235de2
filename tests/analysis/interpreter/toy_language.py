"""A front end of a language of five operators, all that the core asks of one.

::

    index i          i = the thread's number in the launch
    add c a b        c = a + b; operands are registers, numbers and arguments
    less p a b       p = a < b
    jump label p     if p; always without p; "!p" if not p
    load a, store a  4 bytes at the address a; "load r a" into a register
"""

from solkit.adapters.launch_recording import TensorArgument
from solkit.analysis.interpreter.control_flow import Instruction, MemoryUse, control_flow_of
from solkit.analysis.interpreter.front_end import AccessStep, Cost, FrontEnd, Motion, ValueStep
from solkit.analysis.interpreter.storages import Storages
from solkit.analysis.interpreter.values import single_value

BYTES = 4


class Toy(FrontEnd):
    """A kernel; counts in `computed` how often the core lets it compute an operator."""

    def __init__(self, text, **arguments):
        self.arguments = arguments
        self.computed = 0
        storages = Storages(a for a in arguments.values() if isinstance(a, TensorArgument))
        super().__init__(control_flow_of(self.parts(text)), storages)

    def parts(self, text):
        """The basic blocks: a label begins one, a jump ends one."""
        blocks, labels = [[]], {}
        for number, line in enumerate(text.strip().splitlines(), start=1):
            words = line.split()
            if words[0].endswith(":"):
                blocks.append([])
                labels[words[0][:-1]] = len(blocks) - 1
                continue
            blocks[-1].append(self.instruction(words, f"toy:{number}"))
            if words[0] == "jump":
                blocks.append([])
        end = len(blocks)
        for n, block in enumerate(blocks):
            block = block or [Instruction(["nothing"])]
            words = block[-1].source
            to = (n + 1,)
            if words[0] == "jump":
                to = (labels.get(words[1], end), n + 1) if len(words) > 2 else (labels[words[1]],)
            blocks[n] = (block, to)
        return blocks

    def instruction(self, words, line):
        name, *operands = words
        if name == "jump":
            guard = operands[1] if len(operands) > 1 else ""
            used = (guard.lstrip("!"),) if guard else ()
            return Instruction(words, line, read=used, guard=guard, deciding=used)
        if name in ("load", "store"):
            use = MemoryUse(name, BYTES, operands[-1:])
            return Instruction(
                words, line, tuple(operands[:-1]), tuple(operands[-1:]), memory=use,
                loads="memory" if len(operands) > 1 else "", deciding=tuple(operands[-1:]),
            )  # fmt: skip
        pointers = tuple(o for o in operands if isinstance(self.arguments.get(o), TensorArgument))
        read = tuple(o for o in operands[1:] if o not in self.arguments and not o.isdigit())
        return Instruction(words, line, tuple(operands[:1]), read, pointers=pointers)

    def operand(self, text):
        argument = self.arguments.get(text)
        if isinstance(argument, TensorArgument):
            return single_value(self.storages.address_of(argument))
        if argument is not None or text.isdigit():
            return single_value(int(text) if argument is None else argument)
        return text

    def value_step(self, instruction, threads):
        name, _, *operands = instruction.source
        if name == "index":
            per_block = threads.grid.threads[0]
            number = threads.block_at[0] * per_block + threads.thread_at[0]
            return ValueStep((), lambda: number)

        def compute(a, b):
            self.computed += 1
            return a + b if name == "add" else (a < b).astype(int)

        comparison = "lt" if name == "less" else ""
        return ValueStep(tuple(map(self.operand, operands)), compute, comparison=comparison)

    def access_step(self, instruction, threads):
        del threads
        bits = 8 * BYTES if instruction.loads else 0
        return AccessStep("global", instruction.source[-1], loaded_bits=bits)

    def is_flag(self, register):
        return register.startswith("p")

    def motion(self, instruction, varying):
        del varying
        return Motion.IRREGULAR if instruction.loads else Motion.STEADY

    def period(self, instruction, values):
        del instruction, values
        return 1

    def cost(self, instruction):
        return Cost({"fp32": 1.0} if instruction.source[0] == "add" else {})

    def chain_cycles(self, instructions):
        return float(len(instructions))

    def pointers_into(self, storage):
        return [name for name, argument in self.arguments.items() if argument is storage]

    def pointer_bytes(self, pointer):
        return self.arguments[pointer].storage_bytes
