"""Ascend chips and what they take: element types by operator, and the casts that serve a call which has others.

The lists stand in aclnn.tsv beside each operator's parameters, off CANN's documents. A call is looked at before CANN
is called: what no cast serves raises Unsupported, and the declaration's decomposition runs where there is one.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._core.dtype import bfloat16
from .facts import Parameter, limits_text, signature

A2, A3, A1, P310, B310, NEW = "A2", "A3", "910A", "310P", "310B", "950"
WITHOUT_BFLOAT16 = frozenset((A1, P310))
# The matrix units of these compute float32 only at a lower precision, which has to be allowed (cubeMathType 1).
WITHOUT_FLOAT32_PRODUCTS = frozenset((A1, P310))
ALLOW_LOWER_PRECISION = 1
# Operators that chips lack altogether, where documents and sources agree. The documents' tables of products deny more
# (aclnnExp on a 910A, aclnnAdd on a 310P), which torch_npu calls there: those are left to CANN.
_SINCE_A2 = frozenset((A2, A3, NEW))
_CHIPS_OF: dict[str, frozenset[str]] = {
    **dict.fromkeys(("aclnnBucketize", "aclnnNormalTensorFloat", "aclnnNormalFloatTensor", "aclnnNormalTensorTensor"),
                    frozenset((NEW,))),
    **dict.fromkeys(("aclnnMaxPool2dWithIndices", "aclnnMaxPool2dWithIndicesBackward", "aclnnMaxPool3dWithArgmax",
                     "aclnnMaxPool3dWithArgmaxBackward", "aclnnApplyAdamWV2", "aclnnFlashAttentionScore",
                     "aclnnFlashAttentionScoreGrad", "aclnnFlashAttentionScoreV2", "aclnnFlashAttentionScoreGradV2"),
                    _SINCE_A2),
    **dict.fromkeys(("aclnnRmsNorm", "aclnnRmsNormGrad"), _SINCE_A2 | {P310}),
    # A 310P has these, but documents differ in which results it gives.
    **dict.fromkeys(("aclnnAddRmsNorm", "aclnnAddLayerNorm"), _SINCE_A2),
}  # fmt: skip
_CHIPS_OF["aclnnForeachCopy"] = frozenset((A2, NEW))
_OF_LISTS = ("aclnnForeach", "aclnnGroupedMatmul")
_NAMES = (  # exact names: a plain Ascend910B is of the first generation
    (A1, r"Ascend910(A|ProA|PremiumA|B|ProB)?"), (A2, r"Ascend910B\d.*"), (A3, r"Ascend910_93\w*"),
    (P310, r"Ascend310P\d?\w*"), (B310, r"Ascend310B\d?\w*"), (NEW, r"Ascend950\w*"),
)  # fmt: skip


class Unsupported(NotImplementedError):
    """A call that the chip does not take as it is, told before CANN is called."""


def chip_of(name: str) -> str | None:
    """The generation a chip's name belongs to; None for one that is not known, which is asked for everything."""
    return next((chip for chip, names in _NAMES if re.fullmatch(names, name)), None)


_BFLOAT16 = bfloat16.np
_OF_LETTER = {letter: np.dtype(letter) for letter in "fed?bhilBHILFD"} | {"E": _BFLOAT16}
_LIST = re.compile(r"(?P<chips>[\w,]+)(?P<how>[-+=])(?P<types>\S*)")


@functools.cache
def accepted(symbol: str, chip: str | None) -> Mapping[str, frozenset[np.dtype]]:
    """The element types of an operator's tensors on a chip, by parameter; one that is not there takes any."""
    found: dict[str, frozenset[np.dtype]] = {}
    for part in limits_text(symbol).split() if chip is not None else ():
        if "==" in part:
            continue
        names, _, lists = part.partition(":")
        letters, *others = lists.split("/")
        for other in others:
            match = _LIST.fullmatch(other)
            assert match is not None, part
            if chip in match["chips"].split(","):
                kept = "" if match["how"] == "=" else letters
                letters = "".join(set(kept) - set(match["types"])) if match["how"] == "-" else kept + match["types"]
        types = frozenset(_OF_LETTER[letter] for letter in letters)
        if chip in WITHOUT_BFLOAT16:
            types -= {_BFLOAT16}
        found |= dict.fromkeys(names.split(","), types)
    return found


@functools.cache
def required(symbol: str, chip: str | None) -> Mapping[str, int]:
    """The numbers that a chip wants at parameters of an operator, alone or in all places of a list."""
    found = {}
    for part in limits_text(symbol).split():
        name, equals, rest = part.partition("==")
        number, _, chips = rest.partition("@")
        if equals and chip in chips.split(","):
            found[name] = int(number)
    return found


# Types that hold all values of another; a result cast back is the same number, also where it wraps around.
_WIDER: dict[np.dtype, tuple[str, ...]] = {
    _OF_LETTER[narrow]: tuple(wide) for narrow, wide in (
        ("?", "Bbhil"), ("B", "hil"), ("b", "hil"), ("h", "il"), ("i", "l"), ("H", "il"), ("I", "l"), ("e", "f"),
        ("E", "f"), ("f", ""), ("l", ""), ("L", ""), ("d", ""), ("F", "D"), ("D", ""))
}  # fmt: skip
_INT64, _INT32 = np.dtype(np.int64), np.dtype(np.int32)
_IS_INDEX = re.compile(r"(?i)ind(ex|ices)|offset2bag|bagSize|^target$|^targets$")


Types = tuple[np.dtype | None, ...]


def _casts(parameters: Sequence[Parameter], types: Types, taken: Mapping[str, frozenset[np.dtype]]) -> Types | None:
    """The casts of a call whose types are not all taken; None if there are none that keep all values."""
    casts: list[np.dtype | None] = [None] * len(types)
    places = [(i, p, t) for i, (p, t) in enumerate(zip(parameters, types, strict=True)) if t is not None]
    for kind in {t for _, _, t in places}:
        here = [(i, taken.get(p.name), p) for i, p, t in places if t == kind]
        if all(some is None or kind in some for _, some, _ in here):
            continue
        wide = next((_OF_LETTER[w] for w in _WIDER.get(kind, ())
                     if all(some is None or _OF_LETTER[w] in some or kind in some for _, some, _ in here)
                     and any(some is not None and _OF_LETTER[w] in some for _, some, _ in here)), None)  # fmt: skip
        for i, some, parameter in here:
            if some is not None and kind in some and (wide is None or wide not in some):
                continue
            if wide is not None:
                casts[i] = wide
            elif kind == _INT64 and some is not None and _INT32 in some and _IS_INDEX.search(parameter.name):
                casts[i] = _INT32  # places in a tensor are smaller than that
            elif some is not None:
                return None
    return tuple(casts)


@functools.lru_cache(1 << 14)
def way(symbol: str, chip: str | None, types: Types) -> Types | None | str:
    """How a call with these types of tensors (None: no tensor) runs on a chip.

    None: as it is. Types: with these parameters cast to them (None: as it is). A text: what stands against it.
    """
    chips = _CHIPS_OF.get(symbol, _SINCE_A2 if symbol.startswith(_OF_LISTS) else None)
    if chips is not None and chip is not None and chip not in chips:
        return f"a {chip} has no {symbol}"
    parameters, taken = signature(symbol), accepted(symbol, chip)
    if all(t is None or p.name not in taken or t in taken[p.name] for p, t in zip(parameters, types, strict=True)):
        if chip not in WITHOUT_BFLOAT16 or _BFLOAT16 not in types:
            return None
    casts = _casts(parameters, types, taken)
    if casts is not None and not (chip in WITHOUT_BFLOAT16 and _BFLOAT16 in types):
        return casts
    given = ", ".join(f"{p.name} {t}" for p, t in zip(parameters, types, strict=True) if t is not None)
    lists = "; ".join(f"{name} takes {', '.join(sorted(map(str, kinds)))}" for name, kinds in taken.items()
                      if any(p.name == name and t not in kinds for p, t in zip(parameters, types, strict=True) if t))
    return f"{symbol} on a {chip} does not take {given}{f': {lists}' if lists else ''}"


def way_of(symbol: str, chip: str | None, arguments: Sequence[Any]) -> Types | None | str:
    """How a call runs on a chip, as `way` says it."""
    parameters = signature(symbol)
    for name, number in required(symbol, chip).items():
        value = next(v for p, v in zip(parameters, arguments, strict=True) if p.name == name)
        if any(each != number for each in (value if isinstance(value, (list, tuple)) else (value,))):
            return f"{symbol} on a {chip} takes no {name} but {number}"
    return way(symbol, chip, array_types(parameters, arguments))


def array_types(parameters: Sequence[Parameter], arguments: Sequence[Any]) -> Types:
    """The element types of a call's tensors, in the order of its parameters."""
    return tuple([None if value is None else value.dtype if p.is_tensor else _type_of_list(value)
                  if p.is_tensor_list else None for p, value in zip(parameters, arguments, strict=True)])


def _type_of_list(arrays: Sequence[Any]) -> np.dtype | None:
    return arrays[0].dtype if arrays else None


def refusal(op: str, symbol: str, name: str, why: str) -> Unsupported:
    return Unsupported(f"{op or symbol} cannot run on device 'npu' ({name}): {why}")
