"""Convolutions: grouped, depthwise, strided, dilated, padded, transposed; pooling."""

from __future__ import annotations

import pytest

F = 4  # bytes of a float32


def taps(results, size, kernel, stride=1, padding=0, dilation=1):
    """Pairs of a result and a tap that fall inside along one axis, counted one by one."""
    return sum(
        0 <= o * stride - padding + t * dilation < size
        for o in range(results)
        for t in range(kernel)
    )


PROBLEMS = {
    "sampled at few points: four neighbours of each": (
        "R(1, 3, 32, 32); torch.rand(1, 2, 4, 2, device=DEV) * 2 - 1",
        "return F.grid_sample(a0, a1, align_corners=False)",
        {"fp32": (3 * 8 * 7, 3 * 8 * 7 + 2 * 16)},
        (4 * 3 * 8, 4 * (3 * 4 * 8 + 16)),
        4 * 3 * 8,
    ),
    "shrunk by interpolation: the two elements around each result": (
        "R(1, 2, 16, 10)",
        "return F.interpolate(a0, size=(2, 10), mode='bilinear')",
        {"fp32": 2 * 40},  # along the other axis each result falls on an element
        4 * 2 * 4 * 10,
        4 * 40,
    ),
    "corners aligned: every fourth element": (
        "R(1, 1, 9)",
        "return F.interpolate(a0, size=3, mode='linear', align_corners=True)",
        {},
        4 * 3,
        4 * 3,
    ),
    "shrunk by cubic interpolation: four elements around each result": (
        "R(1, 1, 32, 32)",
        "return F.interpolate(a0, size=(4, 4), mode='bicubic')",
        {"fp32": (7 * 16, 35 * 16)},
        4 * 16 * 16,
        4 * 16,
    ),
    "as a product of unfolded windows": (
        "R(1, 2, 5, 5); R(3, 2, 3, 3)",
        "return (a1.flatten(1) @ F.unfold(a0, 3, padding=1)).view(1, 3, 5, 5)",
        {"contraction.fp32": 2 * 2 * 3 * 13 * 13},  # 13 of 15 taps of an axis fall inside
        4 * (50 + 54),
        4 * 75,
    ),
    "taps that a mask of the program hides": (
        "R(2, 4, 8, 8); R(6, 4, 3, 3)",
        "m = torch.ones(3, 3, device='cuda')\nm[::2, ::2] = 0\n"
        "return F.conv2d(a0, a1 * m, padding=1)",
        # a cross: 22 taps and places up and down, and two taps aside that miss one place each
        {"contraction.fp32": 2 * 2 * 4 * 6 * (22 * 8 + 2 * 7 * 8), "fp32": 24 * 5},
        F * (2 * 4 * 64 + 24 * 5),
        F * 2 * 6 * 64,
    ),
    "1x1": (
        "R(2, 8, 6, 6); R(16, 8, 1, 1)",
        "return F.conv2d(a0, a1)",
        {"contraction.fp32": 2 * 2 * 8 * 16 * 36},
        F * (2 * 8 * 36 + 128),
        F * 2 * 16 * 36,
    ),
    "1x1 with a stride reads a quarter": (
        "R(2, 8, 6, 6); R(16, 8, 1, 1)",
        "return F.conv2d(a0, a1, stride=2)",
        {"contraction.fp32": 2 * 2 * 8 * 16 * 9},
        F * (2 * 8 * 9 + 128),
        F * 2 * 16 * 9,
    ),
    "2x2 with stride 3 leaves gaps: 5 windows of 2": (
        "R(2, 4, 15, 15); R(8, 4, 2, 2)",
        "return F.conv2d(a0, a1, stride=3)",
        {"contraction.fp32": 2 * 2 * 4 * 8 * 25 * 4},
        F * (2 * 4 * 10 * 10 + 128),
        F * 2 * 8 * 25,
    ),
    "3x3 with stride 2 on 10: the last row is not read": (
        "R(1, 1, 10, 10); R(1, 1, 3, 3)",
        "return F.conv2d(a0, a1, stride=2)",
        {"contraction.fp32": 2 * 16 * 9},
        F * (81 + 9),
        F * 16,
    ),
    "dilated with large holes": (
        "R(1, 1, 9, 9); R(1, 1, 3, 3)",
        "return F.conv2d(a0, a1, dilation=4)",
        {"contraction.fp32": 2 * 9},
        F * (9 + 9),
        F,
    ),
    "padded: 3*8 - 2 taps inside along an axis": (
        "R(2, 3, 8, 8); R(5, 3, 3, 3)",
        "return F.conv2d(a0, a1, padding=1)",
        {"contraction.fp32": 2 * 2 * 15 * 22**2},
        F * (384 + 135),
        F * 2 * 5 * 64,
    ),
    "padding='same'": (
        "R(1, 2, 8, 8); R(3, 2, 3, 3)",
        "return F.conv2d(a0, a1, padding='same')",
        {"contraction.fp32": 2 * 6 * 22**2},
        F * (128 + 54),
        F * 192,
    ),
    "padding around one element: each tap meets it once": (
        "R(1, 1, 1); R(1, 1, 5)",
        "return F.conv1d(a0, a1, padding=4)",
        {"contraction.fp32": 2 * 5},
        F * (1 + 5),
        F * 5,
    ),
    "outer taps that only see padding": (
        "R(1, 1, 1, 1); R(1, 1, 3, 3)",
        "return F.conv2d(a0, a1, padding=1)",
        {"contraction.fp32": 2},
        F * 2,
        F,
    ),
    "padded circularly: every tap inside": (
        "nn.Conv2d(2, 3, 3, padding=1, padding_mode='circular').cuda(); R(1, 2, 8, 8)",
        "return a0(a1)",
        {"contraction.fp32": 2 * 6 * 9 * 64, "fp32": (0, 192)},
        F * (128 + 54 + 3),
        F * 192,
    ),
    "with a bias": (
        "R(1, 3, 6, 6); R(4, 3, 3, 3); R(4)",
        "return F.conv2d(a0, a1, a2)",
        {"contraction.fp32": 2 * 12 * 9 * 16, "fp32": (0, 64)},
        F * (108 + 108 + 4),
        F * 64,
    ),
    "grouped and strided": (
        "R(2, 8, 9, 9); R(16, 2, 3, 3)",
        "return F.conv2d(a0, a1, stride=2, groups=4)",
        {"contraction.fp32": 2 * 2 * 16 * 2 * 9 * 16},
        F * (2 * 8 * 81 + 288),
        F * 2 * 16 * 16,
    ),
    "depthwise": (
        "R(1, 8, 9, 9); R(8, 1, 3, 3)",
        "return F.conv2d(a0, a1, groups=8)",
        {"contraction.fp32": 2 * 8 * 9 * 49},
        F * (8 * 81 + 72),
        F * 8 * 49,
    ),
    "depthwise with a multiplier": (
        "R(1, 4, 6); R(8, 1, 3)",
        "return F.conv1d(a0, a1, groups=4)",
        {"contraction.fp32": 2 * 8 * 3 * 4},
        F * (24 + 24),
        F * 32,
    ),
    "1d, dilated": (
        "R(1, 2, 16); R(3, 2, 3)",
        "return F.conv1d(a0, a1, dilation=4)",
        {"contraction.fp32": 2 * 6 * 3 * 8},
        F * (32 + 18),
        F * 24,
    ),
    "3d": (
        "R(1, 2, 5, 5, 5); R(3, 2, 3, 3, 3)",
        "return F.conv3d(a0, a1)",
        {"contraction.fp32": 2 * 6 * 27 * 27},
        F * (250 + 162),
        F * 81,
    ),
    "3d, depthwise": (
        "R(1, 4, 6, 6, 6); R(4, 1, 3, 3, 3)",
        "return F.conv3d(a0, a1, groups=4)",
        {"contraction.fp32": 2 * 4 * 27 * 64},
        F * (864 + 108),
        F * 256,
    ),
    "3d, grouped, padded and strided": (
        "R(2, 4, 7, 7, 7); R(8, 2, 3, 3, 3)",
        "return F.conv3d(a0, a1, stride=2, padding=1, groups=2)",
        {"contraction.fp32": 2 * 2 * 8 * 2 * taps(4, 7, 3, 2, 1) ** 3},
        F * (2 * 4 * 343 + 8 * 2 * 27),
        F * 2 * 8 * 64,
    ),
    "3d, 1x1 with a stride": (
        "R(1, 2, 6, 6, 6); R(3, 2, 1, 1, 1)",
        "return F.conv3d(a0, a1, stride=3)",
        {"contraction.fp32": 2 * 6 * 8},
        F * (2 * 8 + 6),
        F * 24,
    ),
    "without a batch": (
        "R(3, 8, 8); R(5, 3, 3, 3)",
        "return F.conv2d(a0, a1)",
        {"contraction.fp32": 2 * 15 * 9 * 36},
        F * (192 + 135),
        F * 180,
    ),
    "cropped: four results need 4x4 inputs": (
        "R(1, 1, 16, 16); R(1, 1, 3, 3)",
        "return F.conv2d(a0, a1)[:, :, :2, :2].clone()",
        {"contraction.fp32": 2 * 4 * 9},
        F * (16 + 9),
        F * 4,
    ),
    "causal: padded on both sides, then chopped": (
        "R(1, 4, 64); R(4, 1, 4); R(4)",
        "return F.conv1d(a0, a1, a2, padding=3, groups=4)[..., :64].contiguous()",
        # of 4*64 taps a channel, 3+2+1 see the padding before
        {"contraction.fp32": 2 * 4 * (4 * 64 - 6), "fp32": (0, 256)},
        F * (256 + 16 + 4),
        F * 256,
    ),
    # ----------------------------------------------------------------------------- transposed
    "transposed: every input meets every tap": (
        "R(1, 3, 4, 4); R(3, 5, 3, 3)",
        "return F.conv_transpose2d(a0, a1, stride=2)",
        {"contraction.fp32": 2 * 15 * 9 * 16},
        F * (48 + 135),
        F * 5 * 81,
    ),
    "transposed 1d, cropped by its padding": (
        "R(2, 3, 7); R(3, 5, 4)",
        "return F.conv_transpose1d(a0, a1, stride=2, padding=1, output_padding=1)",
        # result length (7-1)*2 - 2 + 4 + 1 = 15: input i meets tap t where i*2 - 1 + t is inside
        {"contraction.fp32": 2 * 2 * 15 * taps(7, 15, 4, 2, 1)},
        F * (42 + 60),
        F * 2 * 5 * 15,
    ),
    "transposed, grouped and dilated": (
        "R(1, 4, 5, 5); R(4, 3, 3, 3)",
        "return F.conv_transpose2d(a0, a1, stride=2, padding=2, dilation=2, groups=2)",
        # result size (5-1)*2 - 4 + 4 + 1 = 9
        {"contraction.fp32": 2 * 4 * 3 * taps(5, 9, 3, 2, 2, 2) ** 2},
        F * (100 + 108),
        F * 6 * 81,
    ),
    "transposed 3d": (
        "R(1, 2, 3, 3, 3); R(2, 2, 2, 2, 2)",
        "return F.conv_transpose3d(a0, a1, stride=2)",
        {"contraction.fp32": 2 * 4 * 8 * 27},
        F * (54 + 32),
        F * 2 * 216,
    ),
    "transposed without a batch": (
        "R(3, 8, 8); R(3, 5, 3, 3)",
        "return F.conv_transpose2d(a0, a1)",
        {"contraction.fp32": 2 * 15 * 9 * 64},
        F * (192 + 135),
        F * 500,
    ),
    # -------------------------------------------------------------------------------- pooling
    "the largest of four": (
        "R(1, 2, 8, 8)",
        "return F.max_pool2d(a0, 2)",
        {"fp32": (32 * 3, 32 * 4)},
        F * 128,
        F * 32,
    ),
    "the last row and column of 9 fall outside": (
        "R(1, 1, 9, 9)",
        "return F.max_pool2d(a0, 2)",
        {"fp32": (16 * 3, 16 * 4)},
        F * 64,
        F * 16,
    ),
    "pooling one of two is a strided copy": (
        "R(1, 2, 8, 8)",
        "return F.max_pool2d(a0, 1, 2)",
        {},
        F * 32,
        F * 32,
    ),
    "two of four": (
        "R(1, 1, 12)",
        "return F.max_pool1d(a0, 2, 4)",
        {"fp32": (3, 6)},
        F * 6,
        F * 3,
    ),
    "means of four": (
        "R(1, 1, 8, 8)",
        "return F.avg_pool2d(a0, 2)",
        {"fp32": (64, 80)},
        F * 64,
        F * 16,
    ),
    "means of overlapping windows share their sums": (
        "R(1, 1, 16, 16)",
        "return F.avg_pool2d(a0, 5, 1)",
        # running sums: 2 along either axis for each of the partial (16x12) and full (12x12) sums
        {"fp32": (144, 2 * 192 + 3 * 144)},
        F * 256,
        F * 144,
    ),
    "the mean of each channel": (
        "R(2, 3, 8, 8)",
        "return F.adaptive_avg_pool2d(a0, 1)",
        {"fp32": (384 - 6, 384 + 6)},
        F * 384,
        F * 6,
    ),
    "the largest of each channel": (
        "R(2, 3, 4, 4)",
        "return F.adaptive_max_pool2d(a0, 1)",
        {"fp32": 90},
        F * 96,
        F * 6,
    ),
    "every second pixel": (
        "R(1, 2, 8, 8)",
        "return F.interpolate(a0, scale_factor=0.5)",
        {},
        F * 32,
        F * 32,
    ),
    "every pixel four times": (
        "R(1, 2, 8, 8)",
        "return F.interpolate(a0, scale_factor=2)",
        {},
        F * 128,
        F * 512,
    ),
    "between pixels": (
        "R(1, 2, 8, 8)",
        "return F.interpolate(a0, scale_factor=2, mode='bilinear')",
        {"fp32": (512, 7 * 512)},
        F * 128,
        F * 512,
    ),
    "windows laid out (im2col)": ("R(1, 2, 8, 8)", "return F.unfold(a0, 3)", {}, F * 128, F * 648),
    "windows added up (col2im)": (
        "R(1, 18, 36)",
        "return F.fold(a0, (8, 8), 3)",
        {"fp32": (648 - 128, 648)},
        F * 648,
        F * 128,
    ),
    "a long kernel for each channel: Fourier transforms": (
        "R(2, 4, 4096); R(4, 1, 1024)",
        "return F.conv1d(a0, a1, groups=4)",
        {"fp32": (20 * 4096 * 12, 20 * 5 * 4096 // 2 * 12)},  # 2.5 n log n of the plain transform
        F * (2 * 4 * 4096 + 4 * 1024),
        F * 2 * 4 * 3073,
        "too large for brute force",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
