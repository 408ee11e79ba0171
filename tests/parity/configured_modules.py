"""Random configurations of torch.nn's modules: constructor arguments, inputs, training or not."""

import re
from collections.abc import Callable

from configuration import Call, Configuration, Draw, Line

Parts = tuple[Call, list[Line], list[str]]  # the constructor, lines that make inputs, the arguments of forward
FLAG = ("True", "False")
REDUCTION = ('"mean"', '"sum"', '"none"')
BATCHES = (1, 2, 2, 3, 0)


def module(name: str, *args: str | int, **kwargs: str) -> Call:
    return Call(f"nn.{name}", [str(a) for a in args], dict(kwargs), "m")


def batched(d: Draw, shape: tuple[int, ...], unbatched: bool = True) -> tuple[int, ...]:
    """The shape with a batch in front, rarely empty, or without."""
    return shape if unbatched and d.maybe(0.2) else (d.choice(BATCHES), *shape)


def sizes(d: Draw, n: int, low: int = 4, high: int = 8) -> tuple[int, ...]:
    return tuple(d.randint(low, high) for _ in range(n))


def spread(d: Draw, n: int, *values: int) -> str:
    """One number, or a tuple of n."""
    return str(d.choice(values)) if d.maybe(0.6) else str(tuple(d.choice(values) for _ in range(n)))


def typed(d: Draw) -> tuple[str, dict[str, str]]:
    """A type, and the keyword that makes a module of it."""
    dtype = d.dtype("float16") if d.maybe(0.4) else "float32"
    return dtype, {} if dtype == "float32" else {"dtype": f"torch.{dtype}"}


def convolution(n: int, transposed: bool = False, lazy: bool = False) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        groups = d.choice((1, 1, 1, 2, 3))
        channels, out = groups * d.randint(1, 3), groups * d.randint(1, 3)
        dtype, kwargs = typed(d)
        kwargs |= d.some(stride=[spread(d, n, 1, 2, 3)], dilation=[spread(d, n, 1, 2)], bias=FLAG)
        kwargs |= {"groups": str(groups)} if groups > 1 else {}
        if transposed:
            kwargs |= d.some(padding=[spread(d, n, 0, 1, 2)], output_padding=[spread(d, n, 0, 1)])
        else:
            modes = ('"zeros"', '"reflect"', '"replicate"', '"circular"')
            kwargs |= d.some(padding=[spread(d, n, 0, 1, 2), '"same"', '"valid"'], padding_mode=modes)
        name = f"{'Lazy' * lazy}Conv{'Transpose' * transposed}{n}d"
        given = [out] if lazy else [channels, out]
        low = 3 if n == 3 else 4
        shape = batched(d, (channels, *sizes(d, n, low, low + 3)))
        call = module(name, *given, spread(d, n, 1, 2, 3), **kwargs)
        args = ["x"]
        if transposed and d.maybe(0.15):
            args.append(f"output_size={[size * 2 for size in shape[-n:]]}")
        return call, [f"x = {d.tensor(shape, dtype)}"], args

    return draw


def pooling(name: str, n: int) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        dtype = d.dtype("float16")
        kernel = spread(d, n, 1, 2, 3)
        kwargs = d.some(stride=[spread(d, n, 1, 2, 3), "None"], ceil_mode=FLAG)
        if name in ("MaxPool", "AvgPool"):
            kwargs |= d.some(padding=[spread(d, n, 0, 1)])
        if name == "MaxPool":
            kwargs |= d.some(dilation=[spread(d, n, 1, 2)], return_indices=FLAG)
            dtype = d.choice((dtype, dtype, dtype, "int64", "uint8"))
        if name == "AvgPool":
            kwargs |= d.some(count_include_pad=FLAG)
            if n > 1:
                kwargs |= d.some(divisor_override=(1, 2, 5, 0))
            dtype = d.choice((dtype, dtype, dtype, "int64"))
        args = [d.choice((1, 2, 3, 2.5, "float('inf')")), kernel] if name == "LPPool" else [kernel]
        shape = batched(d, (d.randint(1, 3), *sizes(d, n, 3, 6)))
        whole = dtype in ("int64", "uint8")
        x = d.ints(shape, 9, dtype=dtype) if whole else d.tensor(shape, dtype)
        return module(f"{name}{n}d", *args, **kwargs), [f"x = {x}"], ["x"]

    return draw


def adaptive(name: str, n: int) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        dtype = d.dtype("float16")
        wanted = d.choice((str(d.randint(1, 7)), str(tuple(d.choice((1, 2, 3, 5, None, 0)) for _ in range(n)))))
        kwargs = d.some(return_indices=FLAG) if "Max" in name else {}
        shape = batched(d, (d.randint(1, 3), *sizes(d, n, 3, 6)))
        return module(f"{name}{n}d", wanted, **kwargs), [f"x = {d.tensor(shape, dtype)}"], ["x"]

    return draw


def fractional(n: int) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        kwargs = d.some(0.5, return_indices=FLAG)
        kwargs |= {"output_size": spread(d, n, 2, 3)} if d.maybe() else {"output_ratio": d.choice(("0.5", "0.7"))}
        shape = batched(d, (2, *sizes(d, n, 5, 7)))
        return module(f"FractionalMaxPool{n}d", 2, **kwargs), [f"x = {d.tensor(shape, d.dtype())}"], ["x"]

    return draw


def unpooling(n: int) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        kernel, stride = d.choice((2, 3)), d.choice(("", "2"))
        kwargs = {"stride": stride} if stride else {}
        shape = batched(d, (d.randint(1, 2), *sizes(d, n, 4, 6)))
        lines: list[Line] = [
            f"x = {d.tensor(shape)}",
            Call(f"F.max_pool{n}d", ["x", str(kernel)], kwargs | {"return_indices": "True"}, "p, i"),
        ]
        args = ["p", "i"] + ([f"output_size={shape[-n:]}"] if d.maybe() else [])
        return module(f"MaxUnpool{n}d", kernel, **kwargs), lines, args

    return draw


def batch_norm(name: str, n: int, lazy: bool = False) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        dtype, kwargs = typed(d)
        momenta = (0.3, 1.0, 0.0) if name == "InstanceNorm" else (0.3, "None", 1.0, 0.0)
        kwargs |= d.some(eps=(1e-3, 0.1), momentum=momenta, affine=FLAG, track_running_stats=FLAG, bias=FLAG)
        channels = d.randint(1, 4)
        shape = (d.choice((1, 2, 3, 4, 0)), channels, *sizes(d, n, 1, 4))
        if n == 1 and name == "BatchNorm" and d.maybe():
            shape = shape[:2]
        if name == "InstanceNorm" and d.maybe(0.2):
            shape = shape[1:]
        if d.maybe(0.1):
            dtype = "float32"
        return (
            module(f"{'Lazy' * lazy}{name}{n}d", *([] if lazy else [channels]), **kwargs),
            [f"x = {d.tensor(shape, dtype)}"],
            ["x"],
        )

    return draw


def layer_norm(d: Draw) -> Parts:
    dtype, kwargs = typed(d)
    kwargs |= d.some(eps=(1e-3,), elementwise_affine=FLAG, bias=FLAG)
    shape = d.choice(((4,), (3, 4), (2, 3, 4), (0, 4), (2, 2, 3, 4)))
    count = d.randint(1, min(2, len(shape)))
    wanted = str(shape[-1]) if count == 1 and d.maybe() else str(list(shape[-count:]))
    return module("LayerNorm", wanted, **kwargs), [f"x = {d.tensor(shape, dtype)}"], ["x"]


def rms_norm(d: Draw) -> Parts:
    dtype, kwargs = typed(d)
    kwargs |= d.some(eps=(1e-3, "None"), elementwise_affine=FLAG)
    shape = d.choice(((4,), (3, 4), (2, 3, 4), (0, 4)))
    return module("RMSNorm", str(shape[-1]), **kwargs), [f"x = {d.tensor(shape, dtype)}"], ["x"]


def group_norm(d: Draw) -> Parts:
    dtype, kwargs = typed(d)
    kwargs |= d.some(eps=(1e-3,), affine=FLAG, bias=FLAG)
    groups = d.randint(1, 3)
    shape = (d.choice(BATCHES), groups * d.randint(1, 3), *sizes(d, d.randint(0, 3), 1, 3))
    x = d.tensor(shape, dtype)
    # PyTorch reads a null pointer where the channels are innermost and bias or input have no gradient.
    if kwargs.get("bias") == "False" or "requires_grad" not in x:
        x = f"{x}.detach().contiguous()"
    return module("GroupNorm", groups, shape[1], **kwargs), [f"x = {x}"], ["x"]


def response_norm(name: str) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        kwargs = d.some(alpha=(0.1, 1e-4), beta=(0.5, 0.75), k=(1.0, 2.0))
        # The gradient of CrossMapLRN2d differs on purpose.
        x = d.tensor((2, 5, 3, 4), d.dtype(), grad=0 if name == "CrossMapLRN2d" else 0.7)
        return module(name, d.choice((1, 2, 3, 5)), **kwargs), [f"x = {x}"], ["x"]

    return draw


def recurrent(name: str) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        inputs, hidden, batch, steps = d.randint(1, 4), d.randint(2, 4), d.choice((1, 2, 3)), d.randint(1, 4)
        dtype = d.choice(("float32", "float32", "float64"))
        kwargs = {} if dtype == "float32" else {"dtype": "torch.float64"}
        kwargs |= d.some(num_layers=(1, 2, 3), bias=FLAG, batch_first=FLAG, dropout=(0.0, 0.5), bidirectional=FLAG)
        if name == "LSTM":
            kwargs |= d.some(0.3, proj_size=(1, hidden - 1))
        if name == "RNN":
            kwargs |= d.some(nonlinearity=('"tanh"', '"relu"'))
        first = kwargs.get("batch_first") == "True"
        shape = (batch, steps, inputs) if first else (steps, batch, inputs)
        kind = d.choice(("batched", "batched", "unbatched", "packed"))
        if kind == "unbatched":
            shape = (steps, inputs)
        lines: list[Line] = [f"x = {d.tensor(shape, dtype)}"]
        args = ["x"]
        if kind == "packed":
            lengths = [d.randint(1, steps) for _ in range(batch)]
            lengths[0] = steps
            lines.append(
                f"p = nn.utils.rnn.pack_padded_sequence(x, {lengths}, batch_first={first}, enforce_sorted=False)"
            )
            args = ["p"]
        elif d.maybe(0.4):
            layers = int(kwargs.get("num_layers", "1")) * (2 if kwargs.get("bidirectional") == "True" else 1)
            many = () if kind == "unbatched" else (batch,)
            lines.append(f"h = {d.tensor((layers, *many, int(kwargs.get('proj_size', hidden))), dtype)}")
            args.append("h")
            if name == "LSTM":
                lines.append(f"c = {d.tensor((layers, *many, hidden), dtype)}")
                args[-1] = "(h, c)"
        return module(name, inputs, hidden, **kwargs), lines, args

    return draw


def cell(name: str) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        inputs, hidden = d.randint(1, 4), d.randint(1, 4)
        dtype, kwargs = typed(d)
        kwargs |= d.some(bias=FLAG)
        if name == "RNNCell":
            kwargs |= d.some(nonlinearity=('"tanh"', '"relu"'))
        many = d.choice(((), (2,), (3,), (0,)))
        lines: list[Line] = [f"x = {d.tensor((*many, inputs), dtype)}"]
        args = ["x"]
        if d.maybe():
            lines.append(f"h = {d.tensor((*many, hidden), dtype)}")
            args.append("h")
            if name == "LSTMCell":
                lines.append(f"c = {d.tensor((*many, hidden), dtype)}")
                args[-1] = "(h, c)"
        return module(name, inputs, hidden, **kwargs), lines, args

    return draw


def linear(d: Draw) -> Parts:
    dtype, kwargs = typed(d)
    inputs, outputs = d.choice((1, 2, 3, 4)), d.choice((1, 2, 3, 0))
    kwargs |= d.some(bias=FLAG)
    shape = (*d.choice(((), (2,), (3, 2), (0,), (2, 1, 3))), inputs)
    return module("Linear", inputs, outputs, **kwargs), [f"x = {d.tensor(shape, dtype)}"], ["x"]


def lazy_linear(d: Draw) -> Parts:
    call, lines, args = linear(d)
    return Call("nn.LazyLinear", call.args[1:], call.kwargs, "m"), lines, args


def bilinear(d: Draw) -> Parts:
    dtype, kwargs = typed(d)
    one, two, out = d.randint(1, 3), d.randint(1, 3), d.randint(1, 3)
    kwargs |= d.some(bias=FLAG)
    many = d.choice(((), (2,), (3, 2), (0,)))
    return (
        module("Bilinear", one, two, out, **kwargs),
        [f"x = {d.tensor((*many, one), dtype)}", f"y = {d.tensor((*many, two), dtype)}"],
        ["x", "y"],
    )


def embedding(d: Draw) -> Parts:
    dtype, kwargs = typed(d)
    kwargs |= d.some(
        0.3,
        padding_idx=(0, 1, -1),
        max_norm=(1.0, 0.5),
        norm_type=(1.0, 2.0, "float('inf')"),
        scale_grad_by_freq=FLAG,
        sparse=FLAG,
    )
    x = d.ints(d.choice(((), (3,), (2, 3), (0,), (2, 2, 2))), 5, dtype=d.choice(("int64", "int64", "int32")))
    return module("Embedding", 5, d.randint(1, 4), **kwargs), [f"x = {x}"], ["x"]


def embedding_bag(d: Draw) -> Parts:
    dtype, kwargs = typed(d)
    kwargs |= d.some(
        0.3, padding_idx=(0, 1, -1), max_norm=(1.0, 0.5), norm_type=(1.0, 2.0), sparse=FLAG, include_last_offset=FLAG
    )
    kwargs |= d.some(0.7, mode=('"sum"', '"mean"', '"max"'))
    index = d.choice(("int64", "int64", "int32"))
    if d.maybe():
        shape: tuple[int, ...] = (d.choice((1, 2, 0)), d.randint(1, 4))
        lines: list[Line] = [f"x = {d.ints(shape, 5, dtype=index)}"]
        args = ["x"]
    else:
        count = d.choice((4, 5, 6, 0))
        shape = (count,)
        cuts = sorted(d.randint(0, count) for _ in range(d.randint(1, 3)))
        if kwargs.get("include_last_offset") == "True":
            cuts.append(d.choice((count, count, max(count - 1, cuts[-1]))))
        lines = [f"x = {d.ints(shape, 5, dtype=index)}", f"o = torch.tensor({[0, *cuts]}, dtype=torch.{index})"]
        args = ["x", "o"]
    if kwargs.get("mode") == '"sum"' and d.maybe(0.4):
        lines.append(f"w = {d.tensor(shape, dtype)}")
        args.append("per_sample_weights=w")
    return module("EmbeddingBag", 5, d.randint(1, 4), **kwargs), lines, args


def activation(name: str, **choices: tuple) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        shape = d.choice(((3,), (2, 3), (), (0, 3), (2, 3, 4), (2, 3, 4, 2)))
        kwargs = d.some(0.6, **choices)
        x = d.tensor(shape, d.dtype("float16"), grad=0.3 if kwargs.get("inplace") == "True" else 0.7)
        return module(name, **kwargs), [f"x = {x} * 3" if d.maybe() else f"x = {x}"], ["x"]

    return draw


def along_dim(name: str) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        shape = d.choice(((4,), (2, 4), (0, 4), (2, 4, 6), (2, 4, 2, 2)))
        kwargs = d.some(0.8, dim=range(-len(shape), len(shape)))
        return module(name, **kwargs), [f"x = {d.tensor(shape, d.dtype('float16'))}"], ["x"]

    return draw


def prelu(d: Draw) -> Parts:
    dtype, kwargs = typed(d)
    channels = d.choice((1, 3))
    kwargs |= d.some(init=(0.1, 0.5))
    shape = (d.choice(BATCHES), 3, *sizes(d, d.randint(0, 2), 1, 3))
    return module("PReLU", channels, **kwargs), [f"x = {d.tensor(shape, dtype)}"], ["x"]


def dropout(name: str, n: int) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        shape = batched(d, (3, *sizes(d, n, 1, 3)))
        kwargs = d.some(0.6, p=(0, 0.0, 0.25, 1.0, 1), inplace=FLAG)
        return module(name, **kwargs), [f"x = {d.tensor(shape, d.dtype('float16'), grad=0.3)}"], ["x"]

    return draw


def padding(name: str, n: int) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        low = -1 if name in ("Constant", "Zero", "Circular") else 0
        amounts = d.choice(
            (str(d.randint(0, 2)), str(tuple(d.randint(low, 2) for _ in range(2 * n))), str((0,) * 2 * n))
        )
        args = [amounts, d.choice(("0", "1.5", "-2"))] if name == "Constant" else [amounts]
        shape = batched(d, (d.randint(1, 3), *sizes(d, n, 3, 5)))
        dtype = d.dtype("float16", "int64", "complex64")
        x = d.ints(shape, 9) if dtype == "int64" else d.tensor(shape, dtype)
        return module(f"{name}Pad{n}d", *args), [f"x = {x}"], ["x"]

    return draw


def upsample(d: Draw) -> Parts:
    mode = d.choice(("nearest", "linear", "bilinear", "bicubic", "trilinear", "nearest-exact", "area"))
    n = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(mode) or d.randint(1, 3)
    kwargs = {"mode": f'"{mode}"'} if mode != "nearest" or d.maybe() else {}
    if d.maybe():
        kwargs["size"] = spread(d, n, 1, 2, 5, 7)
    else:
        kwargs["scale_factor"] = d.choice(
            ("2", "1", "1.5", "0.6", str(tuple(d.choice((1.0, 2, 0.5)) for _ in range(n))))
        )
        kwargs |= d.some(0.3, recompute_scale_factor=FLAG)
    if "linear" in mode or mode == "bicubic":
        kwargs |= d.some(0.6, align_corners=FLAG)
    shape = (d.choice(BATCHES), d.randint(1, 3), *sizes(d, n, 2, 5))
    if d.maybe(0.1):
        return module("UpsamplingBilinear2d", scale_factor="2"), ["x = torch.randn(1, 2, 3, 3)"], ["x"]
    if d.maybe(0.1):
        return module("UpsamplingNearest2d", size="(4, 5)"), ["x = torch.randn(1, 2, 3, 3)"], ["x"]
    return module("Upsample", **kwargs), [f"x = {d.tensor(shape, d.dtype('float16'))}"], ["x"]


def shuffle(name: str) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        factor = d.choice((1, 2, 3))
        many = d.choice(((), (2,), (1,), (2, 1)))
        shape = {
            "PixelShuffle": (2 * factor * factor, 2, 3),
            "PixelUnshuffle": (2, 2 * factor, factor),
            "ChannelShuffle": (2 * factor, 2, 2),
        }[name]
        many = (2,) if name == "ChannelShuffle" else many
        return module(name, factor), [f"x = {d.tensor((*many, *shape), d.dtype('float16'))}"], ["x"]

    return draw


def folding(name: str) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        kernel = spread(d, 2, 1, 2, 3)
        kwargs = d.some(dilation=[spread(d, 2, 1, 2)], padding=[spread(d, 2, 0, 1)], stride=[spread(d, 2, 1, 2)])
        if name == "Unfold":
            shape = batched(d, (2, *sizes(d, 2, 4, 6)))
            return module(name, kernel, **kwargs), [f"x = {d.tensor(shape, d.dtype())}"], ["x"]
        values = {
            key: eval(kwargs.get(key, one)) for key, one in (("dilation", "1"), ("padding", "0"), ("stride", "1"))
        }
        sides = {key: (v, v) if isinstance(v, int) else v for key, v in (*values.items(), ("kernel", eval(kernel)))}
        out = sizes(d, 2, 5, 6)
        blocks = [
            (o + 2 * sides["padding"][i] - sides["dilation"][i] * (sides["kernel"][i] - 1) - 1) // sides["stride"][i]
            + 1
            for i, o in enumerate(out)
        ]
        shape = batched(d, (2 * sides["kernel"][0] * sides["kernel"][1], blocks[0] * blocks[1]))
        return module(name, str(out), kernel, **kwargs), [f"x = {d.tensor(shape, d.dtype())}"], ["x"]

    return draw


def reshaping(d: Draw) -> Parts:
    shape = d.choice(((2, 6), (2, 3, 4), (0, 4), (2, 3, 2, 2)))
    if d.maybe():
        kwargs = d.some(0.7, start_dim=range(len(shape)), end_dim=range(-1, len(shape)))
        return module("Flatten", **kwargs), [f"x = {d.tensor(shape)}"], ["x"]
    return module("Unflatten", 1, d.choice(("(2, 3)", "(-1, 2)", "[3, 2]", "(6,)"))), [f"x = {d.tensor((2, 6))}"], ["x"]


def distance(d: Draw) -> Parts:
    shape = d.choice(((3, 4), (4,), (2, 3, 4), (0, 4)))
    dtype = d.dtype()
    lines: list[Line] = [f"x = {d.tensor(shape, dtype)}", f"y = {d.tensor(shape, dtype)}"]
    if d.maybe():
        return module("CosineSimilarity", **d.some(dim=(-1, 0, 1), eps=(1e-3,))), lines, ["x", "y"]
    return (
        module("PairwiseDistance", **d.some(p=(1.0, 2.0, 3.0, "float('inf')"), eps=(1e-3,), keepdim=FLAG)),
        lines,
        ["x", "y"],
    )


def attention(d: Draw) -> Parts:
    heads, width = d.choice(((1, 4), (2, 4), (2, 8)))
    dtype = d.choice(("float32", "float32", "float64"))
    kwargs = {} if dtype == "float32" else {"dtype": "torch.float64"}
    kwargs |= d.some(0.3, bias=FLAG, add_bias_kv=FLAG, add_zero_attn=FLAG, batch_first=FLAG, dropout=(0.0, 0.5))
    kwargs |= d.some(0.2, kdim=(3, width), vdim=(3, width))
    first, batch, n, s = kwargs.get("batch_first") == "True", d.randint(1, 2), d.randint(1, 3), d.randint(1, 3)
    unbatched = d.maybe(0.2)

    def shape(steps: int, size: int) -> tuple[int, ...]:
        return (steps, size) if unbatched else (batch, steps, size) if first else (steps, batch, size)

    lines: list[Line] = [f"q = {d.tensor(shape(n, width), dtype)}"]
    if d.maybe(0.3) and "kdim" not in kwargs and "vdim" not in kwargs:
        args, s = ["q", "q", "q"], n
    else:
        args = ["q", "k", "v"]
        lines += [
            f"k = {d.tensor(shape(s, int(kwargs.get('kdim', width))), dtype)}",
            f"v = {d.tensor(shape(s, int(kwargs.get('vdim', width))), dtype)}",
        ]
    if d.maybe(0.3):
        lines.append(f"mask = torch.zeros({n}, {s}, dtype={d.choice(('torch.bool', f'torch.{dtype}'))})")
        args.append("attn_mask=mask")
    if d.maybe(0.2):
        lines.append(f"left_out = torch.arange({s}){'' if unbatched else f'.expand({batch}, {s})'} > {d.randint(0, 2)}")
        args.append("key_padding_mask=left_out")
    args += [f"{k}={v}" for k, v in d.some(0.3, need_weights=FLAG, average_attn_weights=FLAG).items()]
    return module("MultiheadAttention", width, heads, **kwargs), lines, args


def transformer(d: Draw) -> Parts:
    kind = d.choice(("TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer"))
    kwargs = d.some(
        0.4,
        dropout=(0.0, 0.2),
        activation=('"relu"', '"gelu"', "F.relu"),
        layer_norm_eps=(1e-3,),
        batch_first=FLAG,
        norm_first=FLAG,
        bias=FLAG,
    )
    kwargs["dim_feedforward"] = "6"
    if kind == "Transformer":
        kwargs |= {"num_encoder_layers": "1", "num_decoder_layers": "1"}
    first = kwargs.get("batch_first") == "True"
    lines: list[Line] = [f"x = {d.tensor((2, 3, 4) if first else (3, 2, 4))}"]
    args = ["x"]
    if kind != "TransformerEncoderLayer":
        lines.append(f"y = {d.tensor((2, 5, 4) if first else (5, 2, 4))}")
        args.append("y")
        args += [
            f"{k}={v}"
            for k, v in d.some(
                0.3,
                tgt_mask=(f"torch.zeros({5 if kind == 'Transformer' else 3}, {5 if kind == 'Transformer' else 3})",),
            ).items()
        ]
    elif d.maybe(0.4):
        args.append("src_mask=nn.Transformer.generate_square_subsequent_mask(3)")
    return module(kind, 4, d.choice((1, 2)), **kwargs), lines, args


def loss(name: str, target: str, **choices: tuple) -> Callable[[Draw], Parts]:
    """A loss of an input and a target; `target` says of what kind."""

    def draw(d: Draw) -> Parts:
        shape = d.choice(((3, 4), (4,), (2, 3, 4), (0, 4), (2, 3)))
        dtype = d.dtype("float16")
        kwargs = (
            d.some(0.4, **choices)
            | d.some(0.6, reduction=REDUCTION)
            | (d.some(0.1, size_average=(*FLAG, "None"), reduce=FLAG) if name not in ("HuberLoss",) else {})
        )
        other = d.tensor(shape, dtype, grad=0.3)
        if target == "signs":
            other = f"torch.randint(0, 2, {shape}).to(torch.{dtype}) * 2 - 1"
        if target == "parts":
            other = d.tensor(shape, dtype, "rand", 0.2)
        x = f"x = {d.tensor(shape, dtype, 'rand' if name == 'BCELoss' else 'randn')}"
        if name in ("BCELoss", "BCEWithLogitsLoss"):
            kwargs |= d.some(0.3, weight=(f"torch.rand({shape[-1]}, dtype=torch.{dtype})",))
        if name == "BCEWithLogitsLoss":
            kwargs |= d.some(0.3, pos_weight=(f"torch.rand({shape[-1]}, dtype=torch.{dtype})",))
        return module(name, **kwargs), [x, f"y = {other}"], ["x", "y"]

    return draw


def class_loss(name: str) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        classes = d.randint(2, 4)
        dtype = d.dtype()
        further = d.choice(((), (), (3,), (2, 3))) if name in ("CrossEntropyLoss", "NLLLoss") else ()
        empty = (0,) if name in ("CrossEntropyLoss", "NLLLoss") else ()  # others leave the result uninitialised
        many = () if not further and d.maybe(0.2) else (d.choice((1, 2, 4, *empty)),)
        kwargs = d.some(0.6, reduction=REDUCTION)
        kwargs |= d.some(0.3, weight=(f"torch.rand({classes}, dtype=torch.{dtype})",))
        low = 0
        if name in ("CrossEntropyLoss", "NLLLoss"):
            kwargs |= d.some(0.3, ignore_index=(0, 1, -1))
            low = -1 if kwargs.get("ignore_index") == "-1" else 0
        if name == "CrossEntropyLoss":
            kwargs |= d.some(0.3, label_smoothing=(0.1, 0.5, 1.0))
        if name == "MultiMarginLoss":
            kwargs |= d.some(0.4, p=(1, 2), margin=(0.5, 1.0))
        lines: list[Line] = [f"x = {d.tensor((*many, classes, *further), dtype)}"]
        if name == "CrossEntropyLoss" and d.maybe(0.25):
            lines.append(f"y = torch.rand({(*many, classes, *further)}, dtype=torch.{dtype}).softmax({len(many)})")
        elif name == "MultiLabelSoftMarginLoss":
            lines.append(f"y = torch.randint(0, 2, {(*many, classes)}).to(torch.{dtype})")
        elif name == "MultiLabelMarginLoss":
            kwargs.pop("weight", None)
            lines.append(f"y = torch.randint(-1, {classes}, {(*many, classes)})")
        else:
            lines.append(f"y = {d.ints((*many, *further), classes, low)}")
        return module(name, **kwargs), lines, ["x", "y"]

    return draw


def triple_loss(name: str) -> Callable[[Draw], Parts]:
    def draw(d: Draw) -> Parts:
        shape = d.choice(((3, 4), (4,), (2, 3, 4), (0, 4)))
        dtype = d.dtype()
        kwargs = d.some(0.6, reduction=REDUCTION)
        third = d.tensor(shape, dtype)
        if name == "TripletMarginLoss":
            kwargs |= d.some(0.4, margin=(0.5, 2.0), p=(1.0, 2.0), swap=FLAG, eps=(1e-3,))
        elif name == "TripletMarginWithDistanceLoss":
            kwargs |= d.some(
                0.4,
                margin=(0.5, 2.0),
                swap=FLAG,
                distance_function=("nn.PairwiseDistance()", "lambda a, b: (a - b).abs().sum(-1)"),
            )
        elif name == "GaussianNLLLoss":
            kwargs |= d.some(0.4, full=FLAG, eps=(1e-3,))
            third = d.tensor(d.choice((shape, (*shape[:-1], 1), shape[:-1])), dtype, "rand")
        elif name == "MarginRankingLoss":
            kwargs |= d.some(0.4, margin=(0.5,))
            third = f"torch.randint(0, 2, {shape}).to(torch.{dtype}) * 2 - 1"
        else:
            kwargs |= d.some(0.4, margin=(0.5, -0.2))
            shape = d.choice(((3, 4), (4,)))
            third = f"torch.randint(0, 2, {shape[:-1]}) * 2 - 1"
        return (
            module(name, **kwargs),
            [f"x = {d.tensor(shape, dtype)}", f"y = {d.tensor(shape, dtype)}", f"z = {third}"],
            ["x", "y", "z"],
        )

    return draw


def ctc_loss(d: Draw) -> Parts:
    steps, batch, classes, most = d.randint(3, 6), d.randint(1, 3), d.randint(2, 5), d.randint(1, 3)
    kwargs = d.some(0.5, blank=(0, classes - 1), reduction=REDUCTION, zero_infinity=FLAG)
    blank = int(kwargs.get("blank", "0"))
    low, high = (1, classes) if blank == 0 else (0, classes - 1)
    lengths = [d.randint(0, most) for _ in range(batch)]
    times = [d.randint(1, steps) for _ in range(batch)]
    target = d.ints((sum(lengths),) if d.maybe(0.3) else (batch, most), high, low)
    dtype = d.choice(("float32", "float64"))
    return (
        module("CTCLoss", **kwargs),
        [
            f"x = {d.tensor((steps, batch, classes), dtype)}",
            "lp = x.log_softmax(2)",
            f"y = {target}",
        ],
        ["lp", "y", d.choice((str(tuple(times)), f"torch.tensor({times})")), str(tuple(lengths))],
    )


def adaptive_softmax(d: Draw) -> Parts:
    kwargs = d.some(0.5, div_value=(2.0, 4.0), head_bias=FLAG)
    many = d.choice(((2,), (4,), ()))
    return (
        module("AdaptiveLogSoftmaxWithLoss", 8, 12, d.choice(("[4]", "[3, 7]", "[2, 5, 9]")), **kwargs),
        [f"x = {d.tensor((*many, 8))}", f"y = {d.ints(many, 12)}"],
        ["x", "y"],
    )


def linear_cross_entropy(d: Draw) -> Parts:
    dtype, kwargs = typed(d)
    dtype, kwargs = ("float32", {}) if dtype in ("float16", "bfloat16") else (dtype, kwargs)
    kwargs |= d.some(0.4, bias=FLAG, reduction=REDUCTION, label_smoothing=(0.0, 0.2))
    return (
        module("LinearCrossEntropyLoss", 3, 4, **kwargs),
        [f"x = {d.tensor((5, 3), dtype)}", f"y = {d.ints((5,), 4)}"],
        ["x", "y"],
    )


# Lazy modules on meta lose their way in PyTorch; transposed convolutions are not checked there.
NO_META = re.compile("Lazy|ConvTranspose")
DIMENSIONS = (1, 2, 3)
MODULES: dict[str, Callable[[Draw], Parts]] = {
    **{f"Conv{n}d": convolution(n) for n in DIMENSIONS},
    **{f"ConvTranspose{n}d": convolution(n, transposed=True) for n in DIMENSIONS},
    **{f"LazyConv{n}d": convolution(n, lazy=True) for n in DIMENSIONS},
    **{f"LazyConvTranspose{n}d": convolution(n, transposed=True, lazy=True) for n in DIMENSIONS},
    **{f"{name}{n}d": pooling(name, n) for name in ("MaxPool", "AvgPool", "LPPool") for n in DIMENSIONS},
    **{f"{name}{n}d": adaptive(name, n) for name in ("AdaptiveAvgPool", "AdaptiveMaxPool") for n in DIMENSIONS},
    **{f"FractionalMaxPool{n}d": fractional(n) for n in (2, 3)},
    **{f"MaxUnpool{n}d": unpooling(n) for n in DIMENSIONS},
    **{f"{name}{n}d": batch_norm(name, n) for name in ("BatchNorm", "InstanceNorm") for n in DIMENSIONS},
    **{f"Lazy{name}{n}d": batch_norm(name, n, lazy=True) for name in ("BatchNorm", "InstanceNorm") for n in DIMENSIONS},
    "LayerNorm": layer_norm,
    "RMSNorm": rms_norm,
    "GroupNorm": group_norm,
    "LocalResponseNorm": response_norm("LocalResponseNorm"),
    "CrossMapLRN2d": response_norm("CrossMapLRN2d"),
    **{name: recurrent(name) for name in ("RNN", "LSTM", "GRU")},
    **{name: cell(name) for name in ("RNNCell", "LSTMCell", "GRUCell")},
    "Linear": linear,
    "LazyLinear": lazy_linear,
    "Bilinear": bilinear,
    "Embedding": embedding,
    "EmbeddingBag": embedding_bag,
    "ELU": activation("ELU", alpha=(0.5, 2.0), inplace=FLAG),
    "CELU": activation("CELU", alpha=(0.5, 2), inplace=FLAG),
    "GELU": activation("GELU", approximate=('"none"', '"tanh"')),
    "Hardshrink": activation("Hardshrink", lambd=(0.1, 1)),
    "Softshrink": activation("Softshrink", lambd=(0.1, 1, 0)),
    "Hardtanh": activation("Hardtanh", min_val=(-2, -0.5), max_val=(0.5, 2.0), inplace=FLAG),
    "LeakyReLU": activation("LeakyReLU", negative_slope=(0.2, -0.1, 0), inplace=FLAG),
    "RReLU": activation("RReLU", lower=(0.1, 0.2), upper=(0.4, 0.5), inplace=FLAG),
    "Softplus": activation("Softplus", beta=(0.5, 2), threshold=(1, 20.0)),
    **{
        name: activation(name, inplace=FLAG)
        for name in ("Hardsigmoid", "Hardswish", "Mish", "ReLU", "ReLU6", "SELU", "SiLU")
    },
    **{name: activation(name) for name in ("LogSigmoid", "Sigmoid", "Softsign", "Tanh", "Tanhshrink")},
    "PReLU": prelu,
    "Softmax2d": activation("Softmax2d"),
    **{name: along_dim(name) for name in ("GLU", "Softmax", "Softmin", "LogSoftmax")},
    **{
        name: dropout(name, n)
        for name, n in (
            ("Dropout", 1),
            ("Dropout1d", 1),
            ("Dropout2d", 2),
            ("Dropout3d", 3),
            ("AlphaDropout", 1),
            ("FeatureAlphaDropout", 2),
        )
    },
    **{
        f"{name}Pad{n}d": padding(name, n)
        for name in ("Constant", "Zero", "Reflection", "Replication", "Circular")
        for n in DIMENSIONS
    },
    "Upsample": upsample,
    **{name: shuffle(name) for name in ("PixelShuffle", "PixelUnshuffle", "ChannelShuffle")},
    "Fold": folding("Fold"),
    "Unfold": folding("Unfold"),
    "Flatten": reshaping,
    "distance": distance,
    "MultiheadAttention": attention,
    "Transformer": transformer,
    "L1Loss": loss("L1Loss", "any"),
    "MSELoss": loss("MSELoss", "any"),
    "SmoothL1Loss": loss("SmoothL1Loss", "any", beta=(0.5, 2.0, 0.0)),
    "HuberLoss": loss("HuberLoss", "any", delta=(0.5, 2.0)),
    "BCELoss": loss("BCELoss", "parts"),
    "BCEWithLogitsLoss": loss("BCEWithLogitsLoss", "parts"),
    "KLDivLoss": loss("KLDivLoss", "parts", log_target=FLAG),
    "PoissonNLLLoss": loss("PoissonNLLLoss", "parts", log_input=FLAG, full=FLAG, eps=(1e-3,)),
    "HingeEmbeddingLoss": loss("HingeEmbeddingLoss", "signs", margin=(0.5, 2.0)),
    "SoftMarginLoss": loss("SoftMarginLoss", "signs"),
    **{
        name: class_loss(name)
        for name in (
            "CrossEntropyLoss",
            "NLLLoss",
            "MultiMarginLoss",
            "MultiLabelMarginLoss",
            "MultiLabelSoftMarginLoss",
        )
    },
    **{
        name: triple_loss(name)
        for name in (
            "TripletMarginLoss",
            "TripletMarginWithDistanceLoss",
            "GaussianNLLLoss",
            "MarginRankingLoss",
            "CosineEmbeddingLoss",
        )
    },
    "CTCLoss": ctc_loss,
    "AdaptiveLogSoftmaxWithLoss": adaptive_softmax,
    "LinearCrossEntropyLoss": linear_cross_entropy,
}


def drawn(d: Draw) -> Configuration:
    """A module made, called and differentiated, now and then wrapped, in eval mode or on the meta device."""
    name = d.choice(list(MODULES))
    made, inputs, args = MODULES[name](d)
    lines: list[Line] = [d.seeding(), made]
    if d.maybe(0.25):
        lines.append("m.eval()")
    if d.maybe(0.05) and not name.startswith("Lazy"):
        lines.append(d.choice(("m.requires_grad_(False)", "m.double()", "m.bfloat16()", "m = nn.Sequential(m)")))
    meta = d.maybe(0.05) and args == ["x"] and "randint" not in str(inputs) and not NO_META.match(name)
    if meta:
        lines.append('m.to("meta")')
        inputs = [*inputs, 'x = x.detach().to("meta").requires_grad_(x.requires_grad)']
    call = Call(
        "m",
        [a for a in args if "=" not in a or a.startswith("lambda")],
        dict(a.split("=", 1) for a in args if "=" in a and not a.startswith("lambda")),
        "out",
    )
    lines += [*inputs, call, *([] if meta else ["back(out)"])]
    if d.maybe(0.1):
        lines += [Call("m", call.args, call.kwargs, "again")]
    return Configuration(name, lines)
