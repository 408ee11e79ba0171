"""ATen's names of overloads, where one operator here stands for several of them."""

from collections.abc import Callable, Sequence
from typing import Any

from ._dispatch.schema import NUMBERS, Schema

# One overload only, and it is not called `default`.
_ONLY = {"transpose": "int", "transpose_copy": "int", "select": "int", "select_copy": "int", "unbind": "int",
         "unbind_copy": "int", "unflatten": "int", "flatten": "using_ints", "empty": "memory_format",
         "scatter_reduce": "two", "scatter_reduce_": "two", "frexp": "Tensor", "ldexp": "Tensor", "softmax": "int",
         "log_softmax": "int", "copy_": "default", "conv_transpose1d": "default"}
# Another overload if an argument is given.
_IF_GIVEN = {"sum": ("dim", "dim_IntList"), "mean": ("dim", "dim"), "prod": ("dim", "dim_int"),
             "count_nonzero": ("dim", "dim_IntList"), "eye": ("m", "m"), "round": ("decimals", "decimals"),
             "round_": ("decimals", "decimals"), "sort": ("stable", "stable"), "argsort": ("stable", "stable"),
             "rand": ("generator", "generator"), "randn": ("generator", "generator"),
             "randperm": ("generator", "generator"), "rand_like": ("generator", "generator"),
             "randn_like": ("generator", "generator"), "range": ("step", "step"),
             **dict.fromkeys(("hann_window", "hamming_window", "blackman_window", "bartlett_window"),
                             ("periodic", "periodic"))}
_BITS = ("Tensor", "Scalar", "Scalar_Tensor")
_SHIFTS = ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
_POWERS = ("Tensor_Tensor", "Tensor_Scalar", "Scalar")
_POLYNOMIALS = ("default", "n_scalar", "x_scalar")
# Two operands: both tensors, a number second, a number first.
_BY_OPERANDS = {
    "pow": _POWERS, "float_power": _POWERS, "pow_": ("Tensor", "Scalar"), "float_power_": ("Tensor", "Scalar"),
    "remainder": _BITS, "bitwise_and": _BITS, "bitwise_or": _BITS, "bitwise_xor": _BITS,
    "bitwise_left_shift": _SHIFTS, "bitwise_right_shift": _SHIFTS,
    "bitwise_left_shift_": _SHIFTS, "bitwise_right_shift_": _SHIFTS,
    "xlogy": ("Tensor", "Scalar_Other", "Scalar_Self"), "xlogy_": ("Tensor", "Scalar_Other"),
    "special_xlog1py": ("default", "other_scalar", "self_scalar"),
    "special_zeta": ("default", "other_scalar", "self_scalar"),
    "linspace": ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor", "default"),
    "logspace": ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor", "default"),
    "floor_divide": ("default", "default", "default"),
    **{f"special_{name}": _POLYNOMIALS for name in """
        chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
        hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
        shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
        shifted_chebyshev_polynomial_w""".split()},
}
# Of these, PyTorch runs the overload for tensors even if it is given a number.
_NUMBER_AS_TENSOR = frozenset("add sub mul div true_divide".split())


def _is_number(value: Any) -> bool:
    return value.__class__ in NUMBERS


def _of_bounds(schema: Schema, values: Sequence[Any]) -> str:
    return "Tensor" if any(hasattr(v, "_keys") for v in values[1:]) else "default"


def _of_reduced_dims(schema: Schema, values: Sequence[Any]) -> str:
    dims = values[1]
    return "default" if dims is None else "dim" if len(dims) == 1 else "dims"


def _of_range(schema: Schema, values: Sequence[Any]) -> str:
    start, end, step = values[:3]
    return "start_step" if step != 1 else "default" if end is None or start in (None, 0) else "start"


def _of_filling(schema: Schema, values: Sequence[Any]) -> str:
    return "int_Scalar" if _is_number(values[3]) else "int_Tensor"


def _of_scattered(schema: Schema, values: Sequence[Any]) -> str:
    number = _is_number(values[schema.index["src"]])
    if schema.overload == "reduce":
        return "value_reduce" if number else "reduce"
    return "value" if number else "src"


def _of_choice(schema: Schema, values: Sequence[Any]) -> str:
    return "default" if len(values) == 1 else "self"


_CHOSEN: dict[str, Callable[[Schema, Sequence[Any]], str]] = {
    **dict.fromkeys(("clamp", "clamp_", "clamp_min", "clamp_min_", "clamp_max", "clamp_max_"), _of_bounds),
    "all": _of_reduced_dims, "any": _of_reduced_dims, "arange": _of_range, "index_fill": _of_filling,
    "index_fill_": _of_filling, "scatter": _of_scattered, "scatter_": _of_scattered, "where": _of_choice,
}


def overload_name(schema: Schema, values: Sequence[Any]) -> str:
    """What ATen calls the overload that a call of an operator with these values is."""
    name = schema.base_name
    if name in _CHOSEN:
        return _CHOSEN[name](schema, values)
    if name in _ONLY:
        return _ONLY[name]
    if name in _IF_GIVEN:
        argument, overload = _IF_GIVEN[name]
        at = schema.index[argument]
        return "default" if values[at] is None or values[at] == schema.defaults[at] else overload
    if name in _BY_OPERANDS:
        numbers = _is_number(values[0]), _is_number(values[1])
        return _BY_OPERANDS[name][3 if all(numbers) else 2 if numbers[0] else 1 if numbers[1] else 0]
    if schema.overload:
        return "default" if schema.overload in ("functional", "method") else schema.overload
    mixed = next((i for i, a in enumerate(schema.arguments) if a.type == "Tensor|Scalar" and i), None)
    if mixed is None:
        return "default"
    base = name.rstrip("_")
    plain = "Tensor" if base in _NUMBER_AS_TENSOR or not _is_number(values[mixed]) else "Scalar"
    return f"{plain}_mode" if base == "div" and values[schema.index["rounding_mode"]] is not None else plain
