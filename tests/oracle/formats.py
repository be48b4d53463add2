"""Number formats of the checkpoint and of the official activations, in numpy alone (reference section 3).

Codes are uint8, values float64 unless said otherwise. Every value of every format here is exact in FP32, so a table in
float64 loses nothing.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]
Codes = Callable[[F64], U8]
Values = Callable[[U8], F64]

FP8_BLOCK = 128
"""Edge of a square FP8 weight block, and length of an FP8 activation block at a linear."""
FP4_BLOCK = 32
"""Length of an FP4 block along a row."""
KV_BLOCK = 64
"""Length of the FP8 blocks that simulate the KV cache."""


def _e4m3(code: int) -> float:
    exponent, mantissa = divmod(code, 8)
    return mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)


E4M3: F64 = np.array([_e4m3(code) for code in range(0x7F)])
"""Value of the codes 0x00..0x7E; 0x7F is NaN and never written."""
E2M1: F64 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def round_bf16(x: npt.ArrayLike) -> F32:
    """Round to BF16, nearest with ties to even, kept in FP32. Infinity and NaN lose their low bits only."""
    values = np.ascontiguousarray(x, dtype=np.float32)
    bits = values.view(np.uint32)
    finite = (bits & 0x7F800000) != 0x7F800000
    bias = np.where(finite, np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)), np.uint32(0))
    rounded: F32 = ((bits + bias.astype(np.uint32)) & np.uint32(0xFFFF0000)).view(np.float32)
    return rounded.reshape(np.shape(x))


def bf16_bits(x: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """The upper halves of values that already are BF16."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    if np.any(bits & np.uint32(0xFFFF)):
        raise ValueError("value is not a BF16 number")
    return (bits >> np.uint32(16)).astype(np.uint16)


def from_bf16_bits(bits: npt.NDArray[np.uint16]) -> F32:
    widened: F32 = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return widened


def bf16_steps(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Element-wise distance of two BF16 arrays, counted in representable numbers; +0 and -0 are the same one."""

    def rank(x: npt.ArrayLike) -> npt.NDArray[np.int64]:
        bits = bf16_bits(x).astype(np.int64)
        return np.where(bits & 0x8000, -(bits & 0x7FFF), bits)

    return np.abs(rank(a) - rank(b))


def _nearest(x: npt.ArrayLike, table: F64) -> npt.NDArray[np.int64]:
    """Index of the table entry nearest to |x|, ties to the even index, saturating at the last."""
    magnitude = np.minimum(np.abs(np.asarray(x, np.float64)), table[-1])
    middle = (table[1:] + table[:-1]) / 2
    index = np.searchsorted(middle, magnitude, side="left")
    tie = (index < middle.size) & (magnitude == middle[np.minimum(index, middle.size - 1)])
    return index + (tie & (index % 2 == 1))


def encode_e4m3(x: npt.ArrayLike) -> U8:
    return (_nearest(x, E4M3) | np.where(np.signbit(x), 0x80, 0)).astype(np.uint8)


def decode_e4m3(codes: U8) -> F64:
    values: F64 = np.where(codes & 0x80, -E4M3[codes & 0x7F], E4M3[codes & 0x7F])
    return values


def encode_e2m1(x: npt.ArrayLike) -> U8:
    return (_nearest(x, E2M1) | np.where(np.signbit(x), 8, 0)).astype(np.uint8)


def decode_e2m1(codes: U8) -> F64:
    """Code 8, minus zero, decodes to zero; the sign of zero is of no consequence in a product sum."""
    values: F64 = np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7])
    return values


def scale_exponent(largest: npt.ArrayLike, top: float, floor: float) -> npt.NDArray[np.int64]:
    """e of the power-of-two scale 2^e: the least e with max(largest, floor) <= top * 2^e."""
    mantissa, exponent = np.frexp(np.maximum(np.asarray(largest, np.float64), floor) / top)
    return (exponent - (mantissa == 0.5)).astype(np.int64)


def _blocks(length: int, block: int) -> list[slice]:
    return [slice(start, min(start + block, length)) for start in range(0, length, block)]


def quantise_fp8(weight: F64) -> tuple[U8, U8]:
    """Weight [R,C] -> E4M3 codes [R,C] and E8M0 scales [ceil(R/128), ceil(C/128)]; edge blocks may be ragged."""
    rows, columns = (_blocks(n, FP8_BLOCK) for n in weight.shape)
    codes = np.zeros(weight.shape, np.uint8)
    scales = np.zeros((len(rows), len(columns)), np.uint8)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            block = weight[row, column]
            exponent = scale_exponent(np.abs(block).max(), 448, 1e-12)
            scales[i, j] = exponent + 127
            codes[row, column] = encode_e4m3(np.ldexp(block, -exponent))
    return codes, scales


def dequantise_fp8(codes: U8, scales: U8) -> F32:
    """Inverse of quantise_fp8; exact in FP32."""
    exponent = np.repeat(np.repeat(scales.astype(np.int64) - 127, FP8_BLOCK, 0), FP8_BLOCK, 1)
    return np.ldexp(decode_e4m3(codes), exponent[: codes.shape[0], : codes.shape[1]]).astype(np.float32)


def quantise_fp4(weight: F64) -> tuple[U8, U8]:
    """Weight [R,C], 32 dividing C -> packed nibbles [R,C/2], low nibble first, and E8M0 scales [R,C/32]."""
    rows, columns = weight.shape
    blocks = weight.reshape(rows, columns // FP4_BLOCK, FP4_BLOCK)
    exponent = scale_exponent(np.abs(blocks).max(-1), 6, 1e-12)
    codes = encode_e2m1(np.ldexp(blocks, -exponent[..., None])).reshape(rows, columns)
    return codes[:, 0::2] | (codes[:, 1::2] << 4), (exponent + 127).astype(np.uint8)


def dequantise_fp4(packed: U8, scales: U8) -> F32:
    """Inverse of quantise_fp4; exact in FP32."""
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1)
    exponent = np.repeat(scales.astype(np.int64) - 127, FP4_BLOCK, 1)
    return np.ldexp(decode_e2m1(codes), exponent).astype(np.float32)


def _through(x: npt.ArrayLike, *, block: int, top: float, floor: float, encode: Codes, decode: Values) -> F64:
    values = np.array(x, np.float64)
    for part in _blocks(values.shape[-1], block):
        piece = values[..., part]
        exponent = scale_exponent(np.abs(piece).max(-1, keepdims=True), top, floor)
        values[..., part] = np.ldexp(decode(encode(np.ldexp(piece, -exponent))), exponent)
    return values


def through_fp8(x: npt.ArrayLike, block: int) -> F64:
    """Q8_block along the last axis: what an activation is after a trip through FP8. A short tail is a block of its own."""
    return _through(x, block=block, top=448, floor=1e-4, encode=encode_e4m3, decode=decode_e4m3)


def through_fp4(x: npt.ArrayLike) -> F64:
    """Q4_32 along the last axis."""
    return _through(x, block=FP4_BLOCK, top=6, floor=6 * 2.0**-126, encode=encode_e2m1, decode=decode_e2m1)


def hadamard(x: npt.ArrayLike) -> F64:
    """Orthonormal Hadamard transform of the last axis, Sylvester order; its length is a power of two."""
    values = np.array(x, np.float64)
    length = values.shape[-1]
    half = 1
    while half < length:
        pairs = values.reshape(*values.shape[:-1], length // (2 * half), 2, half)
        values = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], -2).reshape(values.shape)
        half *= 2
    return values / np.sqrt(length)
