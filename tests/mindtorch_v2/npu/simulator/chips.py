"""What chips take and how their operators differ, as CANN's documents and sources tell, apart from the binding."""

import functools
import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .build import FACTS
from .machine import Fault

SOC_NAMES = {"A2": b"Ascend910B1", "A3": b"Ascend910_9391", "910A": b"Ascend910A", "310P": b"Ascend310P3",
             "950": b"Ascend950PR_9589"}  # fmt: skip
OLD = ("910A", "310P")  # no bfloat16, and no float32 in the matrix units
TYPES = {letter: np.dtype(letter) for letter in "fed?bhilBHILFD"} | {"E": np.dtype(ml_dtypes.bfloat16)}
LACKING = {
    "aclnnBucketize": ("A2", "A3", *OLD), "aclnnNormalTensorFloat": ("A2", "A3", *OLD),
    "aclnnNormalFloatTensor": ("A2", "A3", *OLD), "aclnnNormalTensorTensor": ("A2", "A3", *OLD),
    "aclnnMaxPool2dWithIndices": OLD, "aclnnMaxPool2dWithIndicesBackward": OLD, "aclnnMaxPool3dWithArgmax": OLD,
    "aclnnMaxPool3dWithArgmaxBackward": OLD, "aclnnApplyAdamWV2": OLD, "aclnnFlashAttentionScore": OLD,
    "aclnnFlashAttentionScoreGrad": OLD, "aclnnFlashAttentionScoreV2": OLD, "aclnnFlashAttentionScoreGradV2": OLD,
    "aclnnAddRmsNorm": ("910A",), "aclnnAddLayerNorm": ("910A",),
    "aclnnRmsNorm": ("910A",), "aclnnRmsNormGrad": ("910A",), "aclnnForeachCopy": ("A3", *OLD),
}  # fmt: skip


@functools.cache
def _texts() -> dict[str, str]:
    lines = (line.split("\t") for line in FACTS.read_text().splitlines() if not line.startswith("#"))
    return {line[0]: line[2] for line in lines if len(line) > 2}


@functools.cache
def types_of(symbol: str, chip: str) -> dict[str, frozenset[np.dtype]]:
    """The element types that the documents list for the tensors of an operator."""
    found = {}
    for names, letters, others in re.findall(r"([\w,]+):([\w?]+)(\S*)", _texts().get(symbol, "")):
        kept = set(letters)
        for chips, how, given in re.findall(r"/([\w,]+)([-+=])([\w?]+)", others):
            if chip in chips.split(","):
                kept = {"-": kept - set(given), "+": kept | set(given), "=": set(given)}[how]
        found.update({name: frozenset(TYPES[letter] for letter in kept) for name in names.split(",")})
    return found


def check(chip: str, symbol: str, kinds: Sequence[tuple[str, str]], values: Sequence[Any]) -> None:
    """Raises what a first phase refuses on a chip. A caller can know all of it, so it is a duty neglected."""
    named = {name: value for (name, _), value in zip(kinds, values, strict=True)}
    tensors = {n: t for n, v in named.items() for t in (v if isinstance(v, list) else [v]) if hasattr(t, "dtype")}
    if chip in LACKING.get(symbol, OLD if symbol.startswith(("aclnnForeach", "aclnnGroupedMatmul")) else ()):
        raise Fault(161002, f"a {chip} has no {symbol}")
    lists = types_of(symbol, chip)
    for name, tensor in tensors.items():
        if tensor.dtype not in lists.get(name, (tensor.dtype,)) or chip in OLD and tensor.dtype == TYPES["E"]:
            raise Fault(161002, f"{symbol} on {chip}: {name} does not take {tensor.dtype}")
    if named.get("cubeMathType") == 0 and chip in OLD and any(t.dtype == np.float32 for t in tensors.values()):
        raise Fault(161002, f"{symbol} on {chip}: no float32 in the matrix units, and no lower precision allowed")
    if symbol.startswith("aclnnForeach") and any(isinstance(v, list) and len(v) > 50 for v in values):
        raise Fault(161002, f"{symbol}: more than 50 tensors in a list")
    if "MaxPool" in symbol and "Adaptive" not in symbol and "dilation" in named:
        if chip != "950" and set(named["dilation"]) != {1}:
            raise Fault(161002, f"{symbol} on {chip}: dilation {named['dilation']}")
        if any(2 * p > k for p, k in zip(named["padding"], named["kernelSize"], strict=False)):
            raise Fault(161002, f"{symbol}: padding {named['padding']} of a window of {named['kernelSize']}")
    if symbol == "aclnnCtcLoss" and named["logAlphaOut"].shape[-1] != _alphas(chip, named["targetlengths"]):
        raise Fault(161002, f"{symbol} on {chip}: logAlpha of {named['logAlphaOut'].shape}")
    if symbol == "aclnnCtcLoss":
        pairs = zip(named["inputLengths"], named["targetlengths"], strict=True)
        if not all(0 < labels <= steps for steps, labels in pairs):
            raise Fault(161002, f"{symbol}: lengths of targets {named['targetlengths']} are not computed as elsewhere")
    if symbol in ("aclnnAddRmsNorm", "aclnnAddLayerNorm"):
        shape, scale = named["x1"].shape, named["gamma"].shape
        if named["x2"].shape != shape or 0 in shape or shape[len(shape) - len(scale) :] != scale:
            raise Fault(161002, f"{symbol}: x1 {shape}, x2 {named['x2'].shape}, gamma {scale}")
        if len({named[n].dtype for n in ("x1", "x2", "gamma", "beta", "yOut", "xOut") if n in named}) != 1:
            raise Fault(161002, f"{symbol}: tensors of several types")
    if symbol == "aclnnRmsNorm" and named["yOut"].dtype != named["x"].dtype:
        raise Fault(161002, f"{symbol}: y is {named['yOut'].dtype}, x is {named['x'].dtype}")


def _alphas(chip: str, lengths: Sequence[int]) -> int:
    count = 2 * max(lengths, default=0) + 1
    return (count + 7) // 8 * 8 if chip in ("A2", "A3") else count


def prepared(chip: str, symbol: str, kinds: Sequence[tuple[str, str]], inputs: list[Any]) -> list[Any]:
    """The inputs as the chip's units see them."""
    if chip in OLD and any(name == "cubeMathType" for name, _ in kinds):
        return [x.astype(np.float16).astype(np.float32) if getattr(x, "dtype", None) == np.float32 and x.ndim else x
                for x in inputs]  # fmt: skip
    if symbol == "aclnnBatchNormBackward" and chip != "950":
        *first, variance, training, eps, mask = inputs
        return [*first, 1 / np.sqrt(variance + eps), training, eps, mask]
    return inputs


def finished(chip: str, symbol: str, inputs: Sequence[Any], results: Any) -> Any:
    """The results in the chip's form."""
    if symbol == "aclnnBatchNorm" and chip != "950":
        output, mean, rstd = results
        return output, mean, rstd**-2.0 - inputs[-1]  # the variance stands where its name says 1/std
    if symbol == "aclnnCtcLoss":
        losses, alpha = results
        padded = np.full((*alpha.shape[:2], _alphas(chip, inputs[3])), -np.inf, alpha.dtype)
        padded[..., : alpha.shape[2]] = alpha
        return losses, padded
    return results
