"""Which later boxes overlap each one too much, as bits of 32-bit words; SKEW crowds the boxes."""

import torch
import torch.nn.functional as F

KIND = "reduction"
SHAPES = [
    {"N": 10000, "SKEW": 1.0},
    {"N": 12007, "SKEW": 1.0},  # prime
    {"N": 12288, "SKEW": 3.0},
    {"N": 5000, "SKEW": 8.0},
    {"N": 12321, "SKEW": 2.0},
    {"N": 7777, "SKEW": 1.0},
    {"N": 8192, "SKEW": 4.0},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(N=10000, SKEW=1.0, device="cuda"):
    """Boxes (left, top, right, bottom) whose sides are integers: areas are exact in float32."""
    corner = (torch.rand(N, 2, device=device).pow(SKEW) * 900).floor()
    sides = (torch.rand(N, 2, device=device) * 100 + 1).floor()
    return (torch.cat((corner, corner + sides), dim=1),)


def reference(boxes):
    """Bit j % 32 of word j // 32 in row i: j > i, and more than half of the union is in both."""
    count = boxes.shape[0]
    across = torch.minimum(boxes[:, None, 2], boxes[None, :, 2])
    across -= torch.maximum(boxes[:, None, 0], boxes[None, :, 0])
    down = torch.minimum(boxes[:, None, 3], boxes[None, :, 3])
    down -= torch.maximum(boxes[:, None, 1], boxes[None, :, 1])
    both = across.clamp_(min=0).mul_(down.clamp_(min=0))
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    bits = (3 * both > area[:, None] + area[None, :]).triu(1)
    words = F.pad(bits, (0, -count % 32)).view(count, -1, 32).to(torch.int32)
    place = torch.arange(32, device=boxes.device, dtype=torch.int32)
    return (words << place).sum(dim=2, dtype=torch.int32)
