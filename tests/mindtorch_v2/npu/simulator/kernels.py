"""What the simulated operators compute, with NumPy.

A kernel takes the operator's parameters in C order without the outputs (tensors as arrays, half types as float32;
tensors that are written in place as views of device memory) and returns the outputs.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

KERNELS: dict[str, Callable] = {}
# Operators whose outputs are smaller than the memory given for them.
DATA_DEPENDENT = frozenset(("aclnnNonzero", "aclnnNonzeroV2", "aclnnMaskedSelect", "aclnnUnique", "aclnnUnique2",
                            "aclnnUniqueConsecutive"))  # fmt: skip


def kernel(*symbols: str) -> Callable:
    def add(function: Callable) -> Callable:
        for symbol in symbols:
            KERNELS[f"aclnn{symbol}"] = function
        return function

    return add


def floating(x: Any) -> Any:
    return x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype.kind in "biu" else x


# elementwise ---------------------------------------------------------------------------------------------------------


def _tanh_gelu_inner(x: Any) -> Any:
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def sigmoid(x: Any) -> Any:
    return scipy.special.expit(floating(x))


def gelu(x: Any, approximate: Any = 0) -> Any:
    if approximate in (1, "tanh"):
        return 0.5 * x * (1 + np.tanh(_tanh_gelu_inner(x)))
    return 0.5 * x * (1 + scipy.special.erf(x / math.sqrt(2)))


def gelu_backward(grad: Any, x: Any, approximate: Any = "none") -> Any:
    if approximate in (1, "tanh"):
        t = np.tanh(_tanh_gelu_inner(x))
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
        return grad * 0.5 * (1 + t + x * (1 - t * t) * slope)
    cdf = 0.5 * (1 + scipy.special.erf(x / math.sqrt(2)))
    return grad * (cdf + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


def silu_backward(grad: Any, x: Any) -> Any:
    s = sigmoid(x)
    return grad * s * (1 + x * (1 - s))


def elu(x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return scale * np.where(x > 0, x, alpha * np.expm1(input_scale * x))


def elu_backward(grad: Any, alpha: float, scale: float, input_scale: float, is_result: bool, x: Any) -> Any:
    low = input_scale * (x + alpha * scale if is_result else alpha * scale * np.exp(input_scale * x))
    return grad * np.where(x > 0, scale, low)


def softplus(x: Any, beta: float, threshold: float) -> Any:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta)


def softplus_backward(grad: Any, x: Any, beta: float, threshold: float) -> Any:
    return np.where(x * beta > threshold, grad, grad * sigmoid(x * beta))


def division(a: Any, b: Any, mode: int = 0) -> Any:
    if mode == 0:
        return np.true_divide(floating(a), b)
    if mode == 2:
        return np.floor_divide(a, b)
    result = np.true_divide(a, b)
    return np.trunc(result).astype(np.result_type(a, b))


def clamp(x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def round_half_even(x: Any, decimals: int = 0) -> Any:
    return np.round(x, decimals)


def sign(x: Any) -> Any:
    return x if x.dtype == np.bool_ else np.sign(x)


def heaviside(x: Any, values: Any) -> Any:
    return np.where(x == 0, values, x > 0).astype(x.dtype)


def power(a: Any, b: Any) -> Any:
    return np.power(a, b)


_UNARY: dict[str, Callable] = {
    "Abs": np.abs, "Neg": np.negative, "Sign": sign, "Square": np.square, "Floor": np.floor, "Ceil": np.ceil,
    "Round": np.round, "Trunc": np.trunc, "BitwiseNot": np.invert, "LogicalNot": np.logical_not,
    "IsFinite": np.isfinite, "IsInf": np.isinf,
    "IsPosInf": np.isposinf, "IsNegInf": np.isneginf, "Signbit": np.signbit, "Real": np.real,
    "Relu": lambda x: np.maximum(x, 0), "Frac": lambda x: x - np.trunc(x),
}  # fmt: skip
_FLOATING: dict[str, Callable] = {
    "Reciprocal": lambda x: 1 / x, "Sqrt": np.sqrt, "Rsqrt": lambda x: 1 / np.sqrt(x), "Exp": np.exp, "Exp2": np.exp2,
    "Expm1": np.expm1, "Log": np.log, "Log2": np.log2, "Log10": np.log10, "Log1p": np.log1p, "Sin": np.sin,
    "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan, "Sinh": np.sinh,
    "Cosh": np.cosh, "Tanh": np.tanh,
    "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh, "Sinc": np.sinc, "Erf": scipy.special.erf,
    "Erfc": scipy.special.erfc, "Erfinv": scipy.special.erfinv, "Lgamma": scipy.special.gammaln,
    "Digamma": scipy.special.psi, "Sigmoid": sigmoid, "Gelu": gelu, "Silu": lambda x: x * sigmoid(x),
    "Selu": lambda x: elu(x, 1.6732632423543772, 1.0507009873554805, 1.0),
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "Hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6, "Hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "LogSigmoid": lambda x: -np.logaddexp(0, -x),
}  # fmt: skip
for _name, _function in _UNARY.items():
    KERNELS[f"aclnn{_name}"] = _function
for _name, _function in _FLOATING.items():
    KERNELS[f"aclnn{_name}"] = lambda x, _function=_function: _function(floating(x))

_BINARY: dict[str, Callable] = {
    "Mul": np.multiply, "Muls": np.multiply, "Div": division, "Divs": division, "DivMod": division, "DivMods": division,
    "FloorDivide": np.floor_divide, "FloorDivides": np.floor_divide, "RemainderTensorTensor": np.mod,
    "RemainderTensorScalar": np.mod, "RemainderScalarTensor": np.mod, "FmodTensor": np.fmod, "FmodScalar": np.fmod,
    "PowTensorTensor": power, "PowTensorScalar": power, "PowScalarTensor": power, "Maximum": np.maximum,
    "Minimum": np.minimum, "Atan2": np.arctan2, "LogAddExp": np.logaddexp, "LogAddExp2": np.logaddexp2,
    "XLogYTensor": scipy.special.xlogy, "XLogYScalarOther": scipy.special.xlogy, "Gcd": np.gcd,
    "Heaviside": heaviside, "LeftShift": np.left_shift, "RightShift": np.right_shift,
    "LogicalAnd": np.logical_and, "LogicalOr": np.logical_or, "LogicalXor": np.logical_xor,
    "BitwiseAndTensor": np.bitwise_and, "BitwiseAndScalar": np.bitwise_and, "BitwiseOrTensor": np.bitwise_or,
    "BitwiseOrScalar": np.bitwise_or, "BitwiseXorTensor": np.bitwise_xor, "BitwiseXorScalar": np.bitwise_xor,
    "ClampMin": np.maximum, "ClampMinTensor": np.maximum, "ClampMax": np.minimum, "ClampMaxTensor": np.minimum,
    "Clamp": clamp, "ClampTensor": clamp, "Hardtanh": clamp, "RoundDecimals": round_half_even,
    "Add": lambda a, b, alpha: a + b * _scale(alpha, a), "Adds": lambda a, b, alpha: a + b * alpha,
    "Sub": lambda a, b, alpha: a - b * _scale(alpha, a), "Subs": lambda a, b, alpha: a - b * alpha,
    "Rsub": lambda a, b, alpha: b - a * alpha, "Rsubs": lambda a, b, alpha: b - a * alpha,
    "Addcmul": lambda a, b, c, value: a + value * b * c, "Addcdiv": lambda a, b, c, value: a + value * b / c,
    "Lerp": lambda a, b, w: a + w * (b - a), "Lerps": lambda a, b, w: a + w * (b - a),
    "GeluV2": gelu, "GeluBackward": gelu_backward, "GeluBackwardV2": gelu_backward, "SiluBackward": silu_backward,
    "TanhBackward": lambda grad, y: grad * (1 - y * y), "SigmoidBackward": lambda grad, y: grad * y * (1 - y),
    "ThresholdBackward": lambda grad, x, threshold: grad * (x > threshold),
    "Threshold": lambda x, threshold, value: np.where(x > threshold, x, value),
    "LeakyRelu": lambda x, slope: np.where(x > 0, x, x * slope),
    "LeakyReluBackward": lambda grad, x, slope, of_result: np.where(x > 0, grad, grad * slope),
    "Elu": elu, "EluBackward": elu_backward, "Celu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
    "Softplus": softplus, "SoftplusBackward": softplus_backward,
    "HardtanhBackward": lambda grad, x, low, high: grad * ((x > low) & (x < high)),
    "HardswishBackward": lambda grad, x: grad * np.where(x < -3, 0, np.where(x <= 3, x / 3 + 0.5, 1)),
    "HardsigmoidBackward": lambda grad, x: grad * ((x > -3) & (x < 3)) / 6,
    "Hardshrink": lambda x, at: np.where(np.abs(x) > at, x, 0),
    "HardshrinkBackward": lambda grad, x, at: np.where(np.abs(x) > at, grad, 0),
    "Softshrink": lambda x, at: np.where(x > at, x - at, np.where(x < -at, x + at, 0)),
    "SoftshrinkBackward": lambda grad, x, at: np.where(np.abs(x) > at, grad, 0),
    "LogSigmoidBackward": lambda grad, x, buffer: grad * sigmoid(-x),
    "NanToNum": lambda x, nan, high, low: np.nan_to_num(x, nan=nan, posinf=high, neginf=low),
    "IsClose": lambda a, b, rtol, atol, equal_nan: np.isclose(a, b, rtol, atol, equal_nan),
    "SWhere": np.where, "Complex": lambda a, b: a + 1j * b, "Polar": lambda r, angle: r * np.exp(1j * angle),
    "Logit": lambda x, eps: scipy.special.logit(x if eps < 0 else np.clip(x, eps, 1 - eps)),
    "Cast": lambda x, dtype: x.astype(dtype),
}  # fmt: skip
for _name, _function in _BINARY.items():
    KERNELS[f"aclnn{_name}"] = _function
for _name in ("Eq", "Ne", "Lt", "Le", "Gt", "Ge"):
    _function = {"Eq": np.equal, "Ne": np.not_equal, "Lt": np.less, "Le": np.less_equal, "Gt": np.greater,
                 "Ge": np.greater_equal}[_name]  # fmt: skip
    KERNELS[f"aclnn{_name}Tensor"] = KERNELS[f"aclnn{_name}Scalar"] = _function


def _scale(alpha: Any, array: np.ndarray) -> Any:
    """The factor of the second operand; a bool tensor is not made an integer one by a factor of 1."""
    return True if array.dtype == np.bool_ and alpha == 1 else alpha


@kernel("Equal")
def equal(a: np.ndarray, b: np.ndarray) -> Any:
    return np.asarray(np.array_equal(a, b))


# Every Inplace form is the operator with its result written back into the first argument.
def _inplace(function: Callable) -> Callable:
    def run(target: np.ndarray, *args: Any) -> None:
        source = target.astype(np.float32) if target.dtype.itemsize == 2 and target.dtype.kind in "fV" else target
        np.copyto(target, function(source, *args), casting="unsafe")

    return run


for _name in ("Add", "Adds", "Sub", "Subs", "Mul", "Muls", "Div", "Divs", "PowTensorScalar", "PowTensorTensor",
              "Addcmul", "Addcdiv", "Lerps", "Neg", "Sqrt", "Exp", "Tanh", "Relu", "Sigmoid"):  # fmt: skip
    KERNELS[f"aclnnInplace{_name}"] = _inplace(KERNELS[f"aclnn{_name}"])


# creation, copies ----------------------------------------------------------------------------------------------------


@kernel("InplaceZero")
def zero(target: np.ndarray) -> None:
    target[...] = 0


@kernel("InplaceOne")
def one(target: np.ndarray) -> None:
    target[...] = 1


@kernel("InplaceFillScalar", "InplaceFillTensor", "InplaceCopy")
def fill(target: np.ndarray, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype.kind == "c" and target.dtype.kind != "c":
        value = value.real
    np.copyto(target, value, casting="unsafe")


@kernel("Arange")
def arange(start: float, end: float, step: float) -> np.ndarray:
    kind = np.float64 if isinstance(start + step, float) else np.int64
    return start + step * np.arange(math.ceil((end - start) / step)).astype(kind)


KERNELS["aclnnRange"] = lambda start, end, step: start + step * np.arange(int((end - start) / step) + 1)
KERNELS["aclnnLinspace"] = lambda start, end, steps: np.linspace(start, end, steps)
KERNELS["aclnnLogSpace"] = lambda start, end, steps, base: np.logspace(start, end, steps, base=base)
KERNELS["aclnnEye"] = np.eye


@kernel("Tril")
def tril(x: np.ndarray, diagonal: int) -> np.ndarray:
    return np.tril(x, diagonal)


@kernel("Triu")
def triu(x: np.ndarray, diagonal: int) -> np.ndarray:
    return np.triu(x, diagonal)


KERNELS["aclnnInplaceTril"], KERNELS["aclnnInplaceTriu"] = _inplace(tril), _inplace(triu)
KERNELS["aclnnDiag"] = np.diag
KERNELS["aclnnPermute"] = np.transpose
KERNELS["aclnnFlip"] = np.flip
KERNELS["aclnnRoll"] = lambda x, shifts, dims: np.roll(x, shifts, dims if dims else None)
KERNELS["aclnnRepeat"] = np.tile
KERNELS["aclnnCat"] = lambda arrays, dim: np.concatenate([a for a in arrays if a.shape != (0,)], dim)
KERNELS["aclnnStack"] = np.stack
KERNELS["aclnnSplitWithSize"] = lambda x, sizes, dim: (np.split(x, np.cumsum(sizes)[:-1], dim),)
KERNELS["aclnnRepeatInterleaveInt"] = lambda x, repeats, size: np.repeat(x, repeats)
KERNELS["aclnnRepeatInterleaveIntWithDim"] = lambda x, repeats, dim, size: np.repeat(x, repeats, dim)
KERNELS["aclnnRepeatInterleave"] = lambda x, repeats, size: np.repeat(x, repeats)
KERNELS["aclnnRepeatInterleaveWithDim"] = lambda x, repeats, dim, size: np.repeat(x, repeats, dim)


@kernel("Expand")
def expand(x: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(x, [x.shape[i - len(size)] if n == -1 else n for i, n in enumerate(size)])


@kernel("Slice")
def slice_(x: np.ndarray, dim: int, start: int, end: int, step: int) -> np.ndarray:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


@kernel("ConstantPadNd")
def constant_pad(x: np.ndarray, pad: tuple[int, ...], value: float) -> np.ndarray:
    pairs = [(pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    cut = tuple(slice(max(-a, 0), x.shape[d] - max(-b, 0)) for d, (a, b) in enumerate(widths))
    return np.pad(x[cut], [(max(a, 0), max(b, 0)) for a, b in widths], constant_values=value)


# random numbers: only their distribution is right, and the same seed and offset give the same ----------------------


def _generator(seed: int, offset: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox([seed & (1 << 64) - 1, offset & (1 << 64) - 1]))


@kernel("InplaceNormal")
def normal_(target: np.ndarray, mean: float, std: float, seed: int, offset: int) -> None:
    target[...] = _generator(seed, offset).normal(mean, std, target.shape)


@kernel("InplaceUniform")
def uniform_(target: np.ndarray, low: float, high: float, seed: int, offset: int) -> None:
    target[...] = _generator(seed, offset).uniform(low, high, target.shape)


@kernel("InplaceRandom")
def random_(target: np.ndarray, low: int, high: int, seed: int, offset: int) -> None:
    target[...] = _generator(seed, offset).integers(low, high, target.shape)


@kernel("InplaceBernoulli", "InplaceBernoulliTensor")
def bernoulli_(target: np.ndarray, prob: Any, seed: int, offset: int) -> None:
    target[...] = _generator(seed, offset).random(target.shape) < prob


@kernel("Bernoulli")
def bernoulli(x: np.ndarray, prob: Any, seed: int, offset: int) -> np.ndarray:
    return (_generator(seed, offset).random(x.shape) < prob).astype(x.dtype)


@kernel("Randperm")
def randperm(n: int, seed: int, offset: int) -> np.ndarray:
    return _generator(seed, offset).permutation(n)


# The others come from modules of their own; importing them fills the table.
from . import kernels_conv, kernels_lists, kernels_more, kernels_nn, kernels_pool, kernels_sequences  # noqa: E402, F401
