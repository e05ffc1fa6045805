"""Random operators of the domain com.microsoft, for onnx_operators.py."""

from typing import Any

import numpy as np
from onnx_cases import Case, Constant, maybe, sample, trimmed
from onnx_peer import SIZES

DOMAIN = "com.microsoft"


def microsoft(*ops):
    """Decorator: like `sample`, for operators of com.microsoft."""

    def register(function):
        def case(dice, op):
            made = function(dice, op.rpartition(".")[2])
            made.domain, made.opset = DOMAIN, 17
            return made

        sample(*(f"{DOMAIN}.{op}" for op in ops))(case)
        return function

    return register


def scale(dice, *shape):
    return dice.array(shape, low=0.01, high=0.06)


def zero(dice, dtype, *shape):
    return dice.array(shape, dtype, *((100, 140) if dtype == np.uint8 else (-9, 9)))


def byte(dice):
    return dice.choice([np.uint8, np.uint8, np.int8])


def parameters(dice, dtype):
    """A scale and a zero point."""
    return [Constant(scale(dice)), Constant(zero(dice, dtype))]


# Products and convolutions


@microsoft("FusedConv")
def fused_conv(dice, op):
    axes, group = dice.choice([1, 2, 2, 3]), dice.choice([1, 1, 2])
    channels, outputs = (group * dice.choice([1, 2, 3, 9, 17]) for _ in range(2))
    size, kernel = [dice.choice([3, 5, 8, 17]) for _ in range(axes)], [dice.choice([1, 3]) for _ in range(axes)]
    shapes = ((2, channels, *size), (outputs, channels // group, *kernel))
    operands = [*(dice.uniform_array(*s) for s in shapes), maybe(dice, 0.7, dice.uniform_array(outputs))]
    attributes: dict[str, Any] = {"group": group, "kernel_shape": kernel}
    attributes.update(pads=[k // 2 for k in kernel] * 2, strides=[1] * axes)
    activation = dice.choice(["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid", None])
    if activation:
        attributes["activation"] = activation
    given = {"LeakyRelu": [0.2], "Clip": [-0.3, 0.5], "HardSigmoid": [0.2, 0.5]}.get(activation)
    if given:
        attributes["activation_params"] = given
    operands.append(maybe(dice, 0.4, dice.uniform_array(2, outputs, *size)))
    return Case(trimmed(operands), attributes)


@microsoft("FusedGemm")
def fused_gemm(dice, op):
    m, k, n = (dice.choice(SIZES) for _ in range(3))
    left, right = dice.randint(0, 1), dice.randint(0, 1)
    operands = [dice.uniform_array(*s) for s in ((k, m) if left else (m, k), (n, k) if right else (k, n))]
    operands.append(maybe(dice, 0.8, dice.uniform_array(*dice.choice([(m, n), (n,), (1, n), (m, 1), (1,)]))))
    activation = dice.choice(["Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Elu", "Softplus", "Softsign"])
    attributes: dict[str, Any] = {"transA": left, "transB": right, "activation": activation}
    if activation in ("LeakyRelu", "Elu"):
        attributes["activation_alpha"] = 0.3
    if activation == "HardSigmoid":
        attributes.update(activation_alpha=0.3, activation_beta=0.4)
    return Case(trimmed(operands), attributes)


@microsoft("FusedMatMul", "TransposeMatMul")
def fused_matmul(dice, op):
    lead = dice.choice([(), (1,), (2,), (2, 3)])
    m, k, n = (dice.choice(SIZES) for _ in range(3))
    attributes: dict[str, Any] = {"transA": dice.randint(0, 1), "transB": dice.randint(0, 1)}
    batches = {"transBatchA": dice.randint(0, 1), "transBatchB": dice.randint(0, 1)}
    if op[0] == "T" or not lead:
        batches = dict.fromkeys(batches, 0)
    operands = []
    for side, shape in zip("AB", ((*lead, m, k), (*lead, k, n))):
        a = dice.uniform_array(*shape)
        a = np.swapaxes(a, -1, -2) if attributes[f"trans{side}"] else a
        operands.append(np.ascontiguousarray(np.moveaxis(a, -2, 0) if batches[f"transBatch{side}"] else a))
    return Case(operands, {**attributes, **(batches if op[0] == "F" else {}), "alpha": dice.choice([1.0, 0.5])})


@microsoft("NhwcMaxPool")
def pool_channels_last(dice, op):
    attributes = {"kernel_shape": [2, 3], "strides": [dice.choice([1, 2])] * 2, "pads": [dice.choice([0, 1])] * 4}
    x = dice.array((1, dice.choice([4, 5]), dice.choice([4, 6]), dice.choice([1, 3, 17])), byte(dice))
    return Case([x], {**attributes, "ceil_mode": dice.randint(0, 1)})


# Normalisations and activations


@microsoft("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_norm(dice, op):
    width, batch, length = dice.choice([4, 8, 17, 64]), dice.choice([1, 2]), dice.choice([1, 3, 9])
    x = dice.uniform_array(*((length, width) if dice.chance(0.2) else (batch, length, width)))
    skip = dice.choice([x.shape, x.shape, (1, length, width) if x.ndim == 3 else x.shape, (length, width)])
    operands = [x, dice.uniform_array(*skip), dice.uniform_array(width)]
    if op == "SkipLayerNormalization":
        operands.append(maybe(dice, 0.7, dice.uniform_array(width)))
    operands.append(maybe(dice, 0.5, dice.uniform_array(width)))
    return Case(trimmed(operands), {"epsilon": dice.choice([1e-12, 1e-5])}, outputs=dice.choice([1, 1, 4]))


@microsoft("BiasGelu", "FastGelu", "QuickGelu", "Gelu")
def gelu(dice, op):
    shape = dice.shape(1, 3, zero=0)
    operands = [dice.uniform_array(*shape)]
    if op == "BiasGelu" or op == "FastGelu" and dice.chance(0.6):
        operands.append(dice.uniform_array(shape[-1]))
    return Case(operands, {"alpha": dice.choice([1.702, 1.0])} if op == "QuickGelu" and dice.chance(0.6) else {})


@microsoft("EmbedLayerNormalization")
def embedding(dice, op):
    batch, length, width = dice.choice([1, 2]), dice.choice([1, 4, 9]), dice.choice([8, 17])
    segments = dice.chance(0.6)
    tables = [
        dice.uniform_array(5, width),
        dice.uniform_array(9, width),
        dice.uniform_array(2, width) if segments else None,
    ]
    index = [dice.array((batch, length), np.int32, 0, most) for most in (4, 1, 1, 8)]
    operands = [index[0], index[1] if segments else None, *tables, dice.uniform_array(width), dice.uniform_array(width)]
    operands += [maybe(dice, 0.5, index[2]), maybe(dice, 0.3, index[3])]
    return Case(trimmed(operands), {"epsilon": 1e-5}, outputs=dice.choice([2, 3]))


# Attention


def key_mask(dice, batch, length, total):
    """A mask of one of the kinds that Attention takes, or None."""
    kind = dice.randint(0, 5)
    if kind == 1:
        return dice.array(batch, np.int32, 1, total)
    if kind == 2:
        ends = dice.array(batch, np.int32, 1, total)
        return np.concatenate([ends, np.minimum(ends - 1, dice.array(batch, np.int32, 0, 1))])
    if kind in (3, 4):
        mask = dice.array((batch, total) if kind == 3 else (batch, length, total), np.int32, 0, 1)
        mask[..., 0] = 1
        return mask
    return None


@microsoft("Attention", "QAttention")
def attention(dice, op):
    batch, length, heads, size = (
        dice.choice([1, 2]),
        dice.choice([1, 3, 5, 17]),
        dice.choice([1, 2, 3]),
        dice.choice([4, 8, 9]),
    )
    hidden, past = heads * size, dice.choice([0, 0, 2])
    width = dice.choice([hidden, 6])
    attributes: dict[str, Any] = {"num_heads": heads, "unidirectional": dice.randint(0, 1)}
    options = {"scale": 0.3, "mask_filter_value": -1000.0}
    attributes.update({k: v for k, v in options.items() if dice.chance(0.2)})
    mask = key_mask(dice, batch, length, length + past)
    cache = dice.uniform_array(2, batch, heads, past, size) if past else None
    columns = 3 * hidden
    if op == "Attention":
        if not past and dice.chance(0.2):
            value = heads * dice.choice([4, 6])
            attributes["qkv_hidden_sizes"], columns = [hidden, hidden, value], 2 * hidden + value
        bias = dice.uniform_array(dice.choice([1, batch]), dice.choice([1, heads]), length, length + past)
        operands = [dice.uniform_array(batch, length, width), dice.uniform_array(width, columns)]
        operands += [maybe(dice, 0.8, dice.uniform_array(columns)), mask, cache, maybe(dice, 0.3, bias)]
    else:
        w_type, per_column = byte(dice), (columns,) if dice.chance(0.4) else ()
        operands = [dice.array((batch, length, width), np.uint8), Constant(dice.array((width, columns), w_type))]
        operands += [Constant(dice.uniform_array(columns)), Constant(scale(dice)), Constant(scale(dice, *per_column))]
        operands += [mask if mask is not None and mask.ndim == 1 else None, Constant(zero(dice, np.uint8))]
        operands += [Constant(np.zeros(per_column, w_type)), cache]
    return Case(trimmed(operands), attributes, outputs=2 if past else 1, loose=1e-3)


@microsoft("MultiHeadAttention")
def multi_head_attention(dice, op):
    batch, length, total = dice.choice([1, 2]), dice.choice([1, 3, 9]), dice.choice([1, 4, 17])
    heads, size, kind = dice.choice([1, 2]), dice.choice([4, 8, 9]), dice.randint(0, 4)
    hidden, past = heads * size, 0
    value = hidden
    attributes: dict[str, Any] = {"num_heads": heads}
    options = {"scale": 0.3, "unidirectional": 1}
    attributes.update({k: v for k, v in options.items() if dice.chance(0.2)})
    if "unidirectional" in attributes or kind == 0:
        total = length
    if kind == 0:
        operands = [dice.uniform_array(batch, length, heads, 3, size), None, None]
    else:
        operands = [dice.uniform_array(batch, length, hidden)]
        if kind == 1:
            operands += [dice.uniform_array(batch, total, heads, 2, size), None]
        elif kind == 2:
            operands += [dice.uniform_array(batch, heads, total, size) for _ in range(2)]
        else:
            value = heads * dice.choice([size, 6]) if kind == 3 else hidden
            past = dice.choice([0, 2]) if kind == 4 else 0
            operands += [dice.uniform_array(batch, total, n) for n in (hidden, value)]
    operands.append(dice.uniform_array(2 * hidden + value) if kind in (3, 4) and dice.chance(0.4) else None)
    padded = dice.array((batch, total + past), np.int32, 0, 1)
    padded[:, 0] = 1
    operands.append(maybe(dice, 0.4, dice.choice([dice.array(batch, np.int32, 1, total + past), padded])))
    bias = dice.uniform_array(dice.choice([1, batch]), dice.choice([1, heads]), length, total + past)
    operands.append(maybe(dice, 0.4, bias))
    operands += [dice.uniform_array(batch, heads, past, size) if past else None for _ in range(2)]
    outputs = 3 if past else dice.choice([1, 1, 3]) if kind >= 3 else 1
    return Case(trimmed(operands), attributes, outputs=outputs, loose=1e-3)


@microsoft("GroupQueryAttention")
def grouped_attention(dice, op):
    batch, kv_heads, size = dice.choice([1, 2]), dice.choice([1, 2, 3]), dice.choice([8, 16, 32])
    heads, prompt = kv_heads * dice.choice([1, 2, 4]), dice.chance(0.5)
    past = 0 if prompt else dice.choice([2, 4, 9])
    length = dice.choice([1, 3, 5, 9]) if prompt else 1
    total = past + length
    if dice.chance(0.4):
        operands = [dice.uniform_array(batch, length, (heads + 2 * kv_heads) * size), None, None]
    else:
        operands = [dice.uniform_array(batch, length, n * size) for n in (heads, kv_heads, kv_heads)]
    operands += [dice.uniform_array(batch, kv_heads, past, size) for _ in range(2)]
    operands += [np.full(batch, total - 1, np.int32), Constant(np.array(total, np.int32))]
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": kv_heads}
    if dice.chance(0.5):
        attributes.update(do_rotary=1, rotary_interleaved=dice.randint(0, 1))
        angles = dice.array((16, size // 2), low=0, high=3)
        operands += [Constant(np.cos(angles)), Constant(np.sin(angles))]
    options = {"local_window_size": dice.choice([1, 2, 4]), "softcap": 2.0, "scale": 0.3}
    attributes.update({k: v for k, v in options.items() if dice.chance(0.2)})
    return Case(operands, attributes, outputs=3, loose=1e-3)


@microsoft("RotaryEmbedding")
def rotary(dice, op):
    batch, length, heads, size = (
        dice.choice([1, 2]),
        dice.choice([1, 3, 9]),
        dice.choice([1, 2]),
        dice.choice([4, 8, 32]),
    )
    angles = dice.array((20, size // 2), low=0, high=3)
    places = dice.choice([dice.array(1, np.int64, 0, 9), dice.array((batch, length), np.int64, 0, 19)])
    shape = (batch, length, heads * size) if dice.chance(0.5) else (batch, heads, length, size)
    return Case(
        [dice.uniform_array(*shape), places, np.cos(angles), np.sin(angles)], {"interleaved": dice.randint(0, 1)}
    )


# Quantised numbers


@microsoft("QLinearAdd", "QLinearMul")
def quantised_binary(dice, op):
    dtype, shape = byte(dice), dice.shape(0, 4, zero=0.03)
    a, b = dice.array(shape, dtype), dice.array(dice.broadcast(shape), dtype)
    operands = [a, *parameters(dice, dtype), b, *parameters(dice, dtype), *parameters(dice, dtype)]
    return Case(operands, units=1)


@microsoft("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax")
def quantised_unary(dice, op):
    dtype, shape = byte(dice), dice.shape(1, zero=0)
    operands = [dice.array(shape, dtype), *parameters(dice, dtype)]
    if op == "QLinearSoftmax":
        attributes = {"opset": dice.choice([12, 13]), "axis": dice.choice([-1, 0, len(shape) - 1])}
        low = 0 if dtype == np.uint8 else -128
        operands += [Constant(np.array(1 / 256, np.float32)), Constant(np.array(low, dtype))]
        return Case(operands, attributes, units=1)
    return Case([*operands, *parameters(dice, dtype)], {"alpha": 0.1} if op == "QLinearLeakyRelu" else {}, units=1)


@microsoft("QLinearConcat")
def quantised_concat(dice, op):
    dtype, shape = byte(dice), list(dice.shape(1, zero=0))
    axis = dice.randrange(len(shape))
    operands = parameters(dice, dtype)
    for _ in range(dice.randint(1, 3)):
        shape[axis] = dice.choice([1, 2, 3, 17])
        operands += [dice.array(shape, dtype), *parameters(dice, dtype)]
    return Case(operands, {"axis": axis}, units=1)


@microsoft("QLinearAveragePool", "QLinearGlobalAveragePool")
def quantised_pool(dice, op):
    last, channels = dice.randint(0, 1), dice.choice([1, 3, 8, 17])
    size = [dice.choice([4, 5, 7, 17]) for _ in range(2)]
    x = dice.array((2, *size, channels) if last else (2, channels, *size), np.uint8)
    attributes: dict[str, Any] = {"channels_last": last}
    if op == "QLinearAveragePool":
        attributes.update(kernel_shape=[2, 3], strides=[dice.choice([1, 2])] * 2, pads=[dice.choice([0, 1])] * 4)
        attributes.update(ceil_mode=0, count_include_pad=dice.randint(0, 1))
    return Case([x, *parameters(dice, np.uint8), *parameters(dice, np.uint8)], attributes, units=1)


@microsoft("QLinearWhere")
def quantised_where(dice, op):
    dtype, shape = byte(dice), dice.shape(0, 3, zero=0)
    operands = [dice.array(dice.broadcast(shape), bool)]
    for _ in range(2):
        operands += [dice.array(dice.broadcast(shape), dtype), *parameters(dice, dtype)]
    return Case([*operands, *parameters(dice, dtype)], units=1)


@microsoft("QGemm")
def quantised_gemm(dice, op):
    m, k, n = dice.choice(SIZES), dice.choice(SIZES), dice.choice(SIZES)
    dtype = byte(dice)
    w_type = dtype if dtype == np.int8 else byte(dice)
    left, right, columns = dice.randint(0, 1), dice.randint(0, 1), (n,) if dice.chance(0.3) else ()
    a = dice.array((k, m) if left else (m, k), dtype)
    b = dice.array((n, k) if right else (k, n), w_type)
    middle = np.zeros(columns, w_type) if w_type == np.int8 else np.full(columns, 120, w_type)
    operands = [a, *parameters(dice, dtype), *map(Constant, (b, scale(dice, *columns), middle))]
    operands.append(maybe(dice, 0.6, Constant(dice.array(n, np.int32, special=0))))
    operands += parameters(dice, dtype) if dice.chance(0.6) else []
    return Case(trimmed(operands), {"transA": left, "transB": right, "alpha": dice.choice([1.0, 0.5])}, units=1)


@microsoft("MatMulIntegerToFloat", "DynamicQuantizeMatMul")
def quantised_matmul(dice, op):
    lead, m, k, n = dice.choice([(), (1,), (3,)]), dice.choice(SIZES), dice.choice(SIZES), dice.choice(SIZES)
    dtype, w_type = byte(dice), byte(dice)
    columns = (n,) if dice.chance(0.4) else ()
    bias, zeros = maybe(dice, 0.4, dice.uniform_array(n)), maybe(dice, 0.6, zero(dice, w_type, *columns))
    b = dice.array((k, n), w_type)
    if op == "DynamicQuantizeMatMul":
        operands = [b, scale(dice, *columns), zeros, bias]
        operands = [Constant(v) if v is not None else None for v in operands]
        return Case(trimmed([dice.uniform_array(*lead, m, k), *operands]), loose=5e-3)
    operands = [dice.array((*lead, m, k), dtype), b, dice.uniform_array(), dice.uniform_array(*columns)]
    return Case(trimmed([*operands, maybe(dice, 0.7, zero(dice, dtype)), zeros, bias]))


@microsoft("MatMulNBits")
def matmul_of_bits(dice, op):
    bits, block, k, n = (
        dice.choice([4, 4, 8, 2]),
        dice.choice([16, 32, 64, 128]),
        dice.choice([16, 32, 40, 70, 200]),
        dice.choice(SIZES),
    )
    blocks, each = -(-k // block), 8 // bits
    x = dice.uniform_array(*dice.choice([(), (1,), (3,)]), dice.choice([1, 1, 3, 9]), k)
    codes = dice.array((n, blocks, block // each), np.uint8, 0, 255)
    operands = [x, Constant(codes), Constant(scale(dice, n * blocks) if dice.chance(0.5) else scale(dice, n, blocks))]
    kind = dice.randint(0, 2)
    if kind == 1:
        operands.append(Constant(dice.array(n * -(-blocks // each), np.uint8, 0, 255)))
    elif kind == 2:
        operands.append(Constant(dice.array((n, blocks), low=0, high=2**bits - 1)))
    if dice.chance(0.2):
        operands += [None] * (5 - len(operands)) + [dice.uniform_array(n)]
    return Case(operands, {"K": k, "N": n, "bits": bits, "block_size": block})


@microsoft("GatherBlockQuantized")
def gather_of_bits(dice, op):
    rows, block, blocks = 9, dice.choice([16, 32]), dice.choice([1, 2, 3])
    operands = [Constant(dice.array((rows, block * blocks // 2), np.uint8, 0, 255))]
    operands += [
        dice.indices(rows, dice.shape(0, 2, zero=0)[:2], np.int64, negative=False),
        Constant(scale(dice, rows, blocks)),
    ]
    operands.append(maybe(dice, 0.5, Constant(dice.array((rows, -(-blocks // 2)), np.uint8, 0, 255))))
    return Case(trimmed(operands), {"bits": 4, "block_size": block, "quantize_axis": 1, "gather_axis": 0})


@microsoft("DynamicQuantizeLSTM")
def quantised_lstm(dice, op):
    steps, batch, width, hidden = dice.choice([1, 3]), dice.choice([1, 2]), dice.choice([4, 8]), dice.choice([4, 8, 17])
    direction = dice.choice(["forward", "reverse", "bidirectional"])
    ways, w_type = 2 if direction == "bidirectional" else 1, byte(dice)
    middle = 0 if w_type == np.int8 else 128
    weights = [Constant(dice.array((ways, n, 4 * hidden), w_type, middle - 60, middle + 60)) for n in (width, hidden)]
    columns = (4 * hidden,) if dice.chance(0.3) else ()
    states = [maybe(dice, 0.4, dice.uniform_array(ways, batch, hidden)) for _ in range(2)]
    operands = [dice.uniform_array(steps, batch, width), *weights, Constant(dice.uniform_array(ways, 8 * hidden)), None]
    operands += [*states, None]
    for _ in range(2):
        operands += [Constant(scale(dice, ways, *columns)), Constant(np.full((ways, *columns), middle, w_type))]
    return Case(
        operands, {"hidden_size": hidden, "direction": direction}, outputs=3, loose=0.3
    )  # onnxruntime rounds states to bytes


@microsoft("QuantizeLinear", "DequantizeLinear")
def quantised(dice, op):
    shape, dtype = dice.shape(1, 3, zero=0), dice.choice([np.uint8, np.int8, np.uint16, np.int16])
    axis = dice.randrange(len(shape))
    channels = (shape[axis],) if dice.chance(0.5) else ()
    x = dice.uniform_array(*shape) * 3 if op[0] == "Q" else dice.array(shape, dtype)
    return Case([x, scale(dice, *channels), dice.array(channels, dtype, special=0)], {"axis": axis}, units=1)


# Copies of ONNX's operators


@microsoft("GatherND", "Trilu", "Pad", "Range")
def copies(dice, op):
    if op == "GatherND":
        return Case([dice.uniform_array(3, 4), dice.array((2, 1), np.int64, 0, 2)])
    if op == "Trilu":
        x = dice.uniform_array(*dice.shape(2, 3, zero=0))
        return Case([x, Constant(np.array(dice.randint(-4, 4)))], {"upper": dice.randint(0, 1)})
    if op == "Pad":
        pads = [dice.choice([0, 1]) for _ in range(4)]
        operands = [dice.uniform_array(2, 3), Constant(np.array(pads)), Constant(np.array([1.5], np.float32))]
        return Case(operands, {"mode": "constant"})
    numbers = (dice.randint(-2, 2), dice.randint(3, 8), 1.5)
    return Case([Constant(np.array(v, np.float32)) for v in numbers])
