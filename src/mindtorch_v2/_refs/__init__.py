"""torch._refs: operators written as other operators.

Each name is generated from the operator's declaration: a call runs its `decomposition`, or the operators that it is
composed of, and where the declaration has neither, the operator itself, which is Python already.
"""

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from .._dispatch.registry import Operator, registry
from .._ops._declare.composites import decomposed
from ..overrides import has_torch_function

__all__ = """
    T abs abs_ acos acos_ acosh acosh_ add add_ addcdiv addcdiv_ addcmul addcmul_ addr alias alias_copy all allclose
    amax amin any arange as_strided as_strided_copy as_strided_scatter asin asin_ asinh asinh_ atan atan2 atan2_
    atan_ atanh atanh_ atleast_1d atleast_2d atleast_3d bitwise_and bitwise_and_ bitwise_left_shift
    bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_
    bitwise_xor bitwise_xor_ block_diag broadcast_shapes broadcast_tensors broadcast_to bucketize cat cauchy cauchy_
    ceil ceil_ chunk clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clone column_stack conj conj_physical
    conj_physical_ constant_pad_nd contiguous copy_to copysign copysign_ cos cos_ cosh cosh_ count_nonzero cumprod
    cumprod_ cumsum cumsum_ deg2rad deg2rad_ diag diag_embed diagonal diagonal_copy diagonal_scatter digamma
    digamma_ div div_ dot dsplit dstack empty empty_like empty_permuted empty_strided eq eq_ equal erf erf_ erfc
    erfc_ erfinv erfinv_ exp exp2 exp2_ exp_ expand expand_as expand_copy expm1 expm1_ exponential exponential_ eye
    fill fill_ flatten flip fliplr flipud float_power float_power_ floor floor_ floor_divide floor_divide_ fmax fmin
    fmod fmod_ frac frac_ full full_like gcd gcd_ ge ge_ geometric geometric_ gt gt_ heaviside heaviside_ hsplit
    hstack hypot hypot_ i0 i0_ igamma igamma_ igammac igammac_ imag index_add index_copy index_copy_ index_fill
    index_fill_ index_select is_complex isclose isfinite isinf isnan isneginf isposinf isreal istft item lcm lcm_ le
    le_ lerp lerp_ lgamma lgamma_ linspace log log10 log10_ log1p log1p_ log2 log2_ log_ log_normal log_normal_
    log_softmax logaddexp logaddexp2 logical_and logical_and_ logical_not logical_not_ logical_or logical_or_
    logical_xor logical_xor_ logspace logsumexp lt lt_ masked_fill masked_fill_ maximum mean meshgrid minimum
    movedim mul mul_ mvlgamma mvlgamma_ nan_to_num nan_to_num_ narrow narrow_copy native_group_norm
    native_layer_norm ne ne_ neg neg_ new_empty new_empty_strided new_full new_ones new_zeros nextafter nextafter_
    norm normal ones ones_like permute permute_copy positive pow pow_ prod rad2deg rad2deg_ randn ravel real
    reciprocal reciprocal_ remainder remainder_ renorm repeat reshape reshape_as rfloordiv roll rot90 round rpow
    rsqrt rsqrt_ rsub rtruediv scalar_tensor sgn sgn_ sigmoid sigmoid_ sign sign_ signbit sin sin_ sinc sinc_ sinh
    sinh_ softmax split_with_sizes sqrt sqrt_ square square_ squeeze squeeze_copy stack std std_mean stft sub sub_
    sum sum_to_size swap_axes t t_copy take_along_dim tan tan_ tanh tanh_ tensor_split to trace transpose
    transpose_copy tril tril_ tril_indices triu triu_ triu_indices true_divide true_divide_ trunc trunc_
    trunc_divide unbind unbind_copy unflatten unfold unfold_copy unsqueeze unsqueeze_copy var var_mean vdot view
    view_as view_as_complex view_copy vsplit vstack where xlogy xlogy_ zero zero_ zeros zeros_like""".split()

# Names that functions have here only.
_OTHERWISE: dict[str, Callable] = {
    "T": lambda a: a.T,
    "alias": lambda a: a.view_as(a),
    "mish_": lambda a: torch.nn.functional.mish(a, inplace=True),
    "copy_to": lambda a, b: a.copy_(b),
    "rfloordiv": lambda a, b: torch.floor_divide(b, a),
    "rpow": lambda a, b: torch.pow(b, a),
    "rtruediv": lambda a, b: torch.true_divide(b, a),
    "swap_axes": torch.swapaxes,
    "trunc_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "zero": torch.zeros_like,
    "broadcast_shapes": torch.broadcast_shapes,
}
# Functions of random numbers that exist in place only.
_DRAWN = frozenset(("cauchy", "exponential", "geometric", "log_normal"))


@functools.cache
def _decomposition(operator: Operator) -> Callable | None:
    declaration = operator.declaration
    return None if declaration is None or declaration.decomposition is None else decomposed(operator)


def _of_operator(operator: Operator, function: Callable) -> Callable:
    """A function that runs an operator's decomposition on what the operator would be called with."""

    @functools.wraps(function)
    def reference(*args: Any, **kwargs: Any) -> Any:
        values = None if "out" in kwargs or has_torch_function(args) else operator.schema.match(args, kwargs)
        parts = _decomposition(operator)
        return function(*args, **kwargs) if parts is None or values is None else parts(*values)

    return reference


def reference(place: str, name: str) -> Callable:
    """The reference of a function: `place` is where it stands in the package, such as "nn.functional"."""
    if name in _OTHERWISE:
        return _OTHERWISE[name]
    if not place and name in _DRAWN:
        return lambda a, *args, **kwargs: getattr(torch.empty_like(a), name + "_")(*args, **kwargs)
    found: Any = functools.reduce(getattr, place.split("."), torch) if place else torch
    places = (found, torch.Tensor, torch.nn.functional)
    functions = (getattr(where, name, None) for where in places)
    function = next((f for f in functions if callable(f) and not isinstance(f, type)), None)
    if function is None:
        raise AttributeError(f"module 'torch._refs{'.' if place else ''}{place}' has no attribute '{name}'")
    operator = operator_of(place, name)
    return _of_operator(registry.get(operator), function) if operator in registry else function


def operator_of(place: str, name: str) -> str:
    """What the operator behind a function is called."""
    return f"aten::{place}_{name}" if place in _PREFIXED else f"aten::{name}"


def module_of(place: str) -> Any:
    return importlib.import_module(f"{__name__}.{place}" if place else __name__)


PLACES = ("", "nn.functional", "special", "linalg", "fft")
_MODULES = frozenset(("nn", "special", "linalg", "fft", "_conversions"))
_PREFIXED = frozenset(("special", "linalg", "fft"))


def fill(module: str, place: str, names: list[str]) -> None:
    """Makes the module's `__getattr__` and its names."""
    namespace = vars(sys.modules[module])

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _MODULES and not place and module == __name__:
            return importlib.import_module(f"{module}.{name}")
        made = namespace[name] = reference(place, name)
        return made

    namespace["__getattr__"] = __getattr__
    namespace["__dir__"] = lambda: [*names, "__all__"]


fill(__name__, "", __all__)
