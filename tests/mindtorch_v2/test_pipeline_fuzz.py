"""Random programs give the same inside `torch.pipeline()` as outside: values, versions, gradients, views and errors.

As a script it runs more of them: `python tests/mindtorch_v2/test_pipeline_fuzz.py --count 2000 --seed 1`, with
`--under-compile` as functions that torch.compile was given.
"""

import argparse
import contextlib
import copy
import random
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mindtorch_v2.interpreted_kernels import Interpreted

import mindtorch_v2 as torch
from mindtorch_v2._pipeline import planner, resizing
from mindtorch_v2._pipeline import run as running
from mindtorch_v2._pipeline import trace as tracing
from mindtorch_v2._pipeline.gathers import Writer
from mindtorch_v2._pipeline.resizing import resized
from mindtorch_v2._pipeline.shortcuts import Shortcut

UNARY: dict[str, Callable] = {
    "exp": lambda a: (a * 0.1).exp(), "tanh": lambda a: a.tanh(), "neg": lambda a: -a, "abs": lambda a: a.abs(),
    "sigmoid": lambda a: a.sigmoid(), "relu": lambda a: a.relu(), "square": lambda a: a * a, "half": lambda a: a * 0.5,
    "plus": lambda a: a + 1.5, "minus": lambda a: 2 - a, "clamp": lambda a: a.clamp(-1, 1),
    "floor": lambda a: a.floor(),
    "gelu": lambda a: torch.nn.functional.gelu(a), "silu": lambda a: torch.nn.functional.silu(a),
    "sign": lambda a: a.sign(), "positive": lambda a: a > 0, "double": lambda a: a.double(),
    "float": lambda a: a.float(),
    "bfloat16": lambda a: a.bfloat16(), "clone": lambda a: a.clone(), "contiguous": lambda a: a.contiguous(),
    "sum": lambda a: a.sum(), "mean": lambda a: a.mean(-1, keepdim=True), "max": lambda a: a.amax(0),
    "softmax": lambda a: a.softmax(-1), "var": lambda a: a.var(), "cumsum": lambda a: a.cumsum(-1),
    "sort": lambda a: a.sort(-1)[0], "zeros": lambda a: torch.zeros_like(a), "full": lambda a: torch.full_like(a, 2.5),
    "detach": lambda a: a.detach(), "item": lambda a: a.sum().item() * 0 + a, "nonzero": lambda a: (a > 0).nonzero(),
    "masked": lambda a: a[a > 0.5], "norm": lambda a: torch.nn.functional.layer_norm(a, a.shape[-1:]),
    "norms": lambda a: a.norm(), "data": lambda a: a.data, "where": lambda a: torch.where(a > 0, a, 0.25),
}  # fmt: skip
VIEWS: dict[str, Callable] = {
    "t": lambda a: a.transpose(0, -1), "flat": lambda a: a.view(-1), "reshape": lambda a: a.reshape(-1),
    "first": lambda a: a[0], "slice": lambda a: a[..., 1:], "step": lambda a: a[..., ::2],
    "unsqueeze": lambda a: a.unsqueeze(0), "expand": lambda a: a.unsqueeze(0).expand(2, *a.shape),
    "narrow": lambda a: a.narrow(-1, 0, 2), "chunk": lambda a: a.chunk(2, -1)[1], "diagonal": lambda a: a.diagonal(),
    "same": lambda a: a.view_as(a), "unbind": lambda a: a.unbind(0)[-1],
}  # fmt: skip
BINARY: dict[str, Callable] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "max": torch.maximum,
    "div": lambda a, b: a / (b.abs() + 1), "alpha": lambda a, b: a.add(b, alpha=3), "less": lambda a, b: a < b,
    "lerp": lambda a, b: a.lerp(b, 0.3), "matmul": lambda a, b: a @ b,
    "outer": lambda a, b: a[..., None] * b.flatten()[:2],
    "where": lambda a, b: torch.where(a > b, a, b), "cat": lambda a, b: torch.cat([a, b]),
    "linear": lambda a, b: torch.nn.functional.linear(a, b), "stack": lambda a, b: torch.stack([a, b]),
    "mse": lambda a, b: torch.nn.functional.mse_loss(a, b), "addcmul": lambda a, b: a.addcmul(a, b, value=0.5),
}  # fmt: skip
WRITES: dict[str, Callable] = {
    "add_": lambda a, b: a.add_(b), "mul_": lambda a, b: a.mul_(0.9), "zero_": lambda a, b: a.zero_(),
    "fill_": lambda a, b: a.fill_(0.75), "copy_": lambda a, b: a.copy_(b), "relu_": lambda a, b: a.relu_(),
    "clamp_": lambda a, b: a.clamp_(-0.5, 0.5), "sub_": lambda a, b: a.sub_(b, alpha=0.5),
    "part": lambda a, b: a[..., :1].mul_(2), "set": lambda a, b: a.__setitem__(0, 1.25),
    "self": lambda a, b: a.add_(a),
    "set_tensor": lambda a, b: a.__setitem__((..., slice(0, 1)), b), "turned": lambda a, b: a.t().add_(b),
    "tanh_": lambda a, b: a.tanh_(), "data_": lambda a, b: a.data.mul_(0.5),
    "detached": lambda a, b: a.detach().add_(1),
    "lerp_": lambda a, b: a.lerp_(b, 0.25), "masked_fill_": lambda a, b: a.masked_fill_(a > 0.9, 0.1),
    "cumsum_": lambda a, b: a.cumsum_(-1),
    "index_add_": lambda a, b: a.index_add_(0, torch.tensor([0]).to(a.device), b[:1]),
}  # fmt: skip
F = torch.nn.functional
ROWS: dict[str, Callable] = {
    "softmax": lambda a: a.softmax(-1), "log_softmax": lambda a: a.log_softmax(-1),
    "norm": lambda a: F.layer_norm(a, a.shape[-1:]), "planes": lambda a: F.layer_norm(a, a.shape[-2:]),
    "rms": lambda a: a * (a.pow(2).mean(-1, keepdim=True) + 1e-3).rsqrt(), "mean": lambda a: a - a.mean(-1, True),
    "top": lambda a: (a - a.amax(-1, keepdim=True)).exp(), "sum": lambda a: a.sum(-1),
    "total": lambda a: a / (1 + a.abs().sum()),
    "turned": lambda a: a.t().softmax(-1), "other": lambda a: a.softmax(0),
    "late": lambda a: a / (2 + a.sin().sum(-1).sin())[..., None],
    "half": lambda a: a * 0.5, "abs": lambda a: a.abs() + 1, "twice": lambda a: a * a, "row": lambda a: a[..., :1],
    "both": lambda a: a.mean(-1, True) * a.amax(-1, True), "wide": lambda a: a.amax(-1, True).expand_as(a) * 2,
    "part": lambda a: a[..., 1:], "flat": lambda a: a.reshape(-1), "column": lambda a: a.t(),
}  # fmt: skip
ROW_WRITES: dict[str, Callable] = {
    "div_": lambda a, b: a.div_(a.abs().sum(-1, True) + 1), "sub_": lambda a, b: a.sub_(b),
    "mul_": lambda a, b: a.mul_(2),
    "mean_": lambda a, b: a.copy_(b.mean(-1, True)), "norm_": lambda a, b: a.add_(b.softmax(-1)),
}  # fmt: skip


def _places(a: torch.Tensor, n: int, *places: int) -> torch.Tensor:
    """Indices of a dimension of n: others are an error, which a pipeline tells of later."""
    return torch.tensor([min(max(place, -n), n - 1) for place in places]).to(a.device)


# Maps from places to elements, and what reads them.
MAPS: dict[str, Callable] = {
    "pad": lambda a: F.pad(a, (1, 2)), "border": lambda a: F.pad(a, (0, 1, 2, 1), value=0.5),
    "cut": lambda a: F.pad(a, (-1, 1)), "reflect": lambda a: F.pad(a[None], (1, 1), mode="reflect"),
    "replicate": lambda a: F.pad(a[None], (2, 1), mode="replicate"), "around": lambda a: F.pad(
        a[None], (1, 1), mode="circular"), "roll": lambda a: a.roll(1, -1), "rolls": lambda a: a.roll((1, -2), (0, 1)),
    "flip": lambda a: a.flip(-1), "flips": lambda a: a.flip(0, 1), "lower": lambda a: a.tril(),
    "upper": lambda a: a.triu(1), "turned": lambda a: torch.cat((-a[..., 2:], a[..., :2]), -1),
    "some": lambda a: a.index_select(-1, _places(a, a.shape[-1], 0, 1, 0)), "rows": lambda a: a[
        _places(a, len(a), 0, -1, 1)], "cells": lambda a: a[_places(a, len(a), 0, -1), _places(
            a, a.shape[1], 1, 0)[:, None]],
    "gather": lambda a: a.gather(-1, (a > 9).long()), "take": lambda a: a.take(_places(a, a.numel(), 0, -1, 1)),
    "table": lambda a: F.embedding((a > 9).long(), a), "one_hot": lambda a: F.one_hot((a > 0).long(), 2).to(a.dtype),
    "nearest": lambda a: F.interpolate(a[None, None], scale_factor=2)[0, 0], "scaled": lambda a: a * 0.5,
    "more": lambda a: a + 1, "softmax": lambda a: a.softmax(-1), "sum": lambda a: a.sum(-1),
    "part": lambda a: a[..., 1:], "norm": lambda a: F.layer_norm(a, a.shape[-1:]), "abs": lambda a: a.abs(),
    "t": lambda a: a.t(),
    "mean": lambda a: a.mean(), "first": lambda a: a[0], "wide": lambda a: a.unsqueeze(0).expand(2, *a.shape),
    "padded": lambda a: F.pad(a, (1, 2)) * 2, "rolled": lambda a: a.roll(1, -1) + a,
    "flipped": lambda a: a.flip(-1) - a, "twice": lambda a: F.pad(a.roll(1, -1), (1, 0)).abs(),
    "rope": lambda a: torch.cat(
        (-a[..., 2:], a[..., :2]), -1) * 0.5 + a, "chosen": lambda a: a[_places(a, len(a), 0, -1)].sum(-1),
    "viewed": lambda a: F.pad(a, (1, 2))[..., ::2] * 3, "normed": lambda a: F.layer_norm(a.flip(-1), a.shape[-1:]),
    "soft": lambda a: F.pad(a, (1, 1)).softmax(-1), "spread": lambda a: a.roll(1, -1)[None].expand(2, *a.shape) + 1,
    "back": lambda a: a.flip(0).t() * 2, "gated": lambda a: (lambda e: e * e.sigmoid())(F.pad(a, (1, 1))),
    "ends": lambda a: (lambda e: e[..., :2] + e[..., -2:])(a.roll(1, -1)), "masked": lambda a: (a.tril() + 1).sum(-1),
    "looked": lambda a: F.embedding((a > 9).long(), a) + F.embedding((a > 8).long(), a.flip(0)),
    "stacked": lambda a: torch.stack([a, a * 2, a.flip(-1)], 1).relu(), "shown": lambda a: a.triu().reshape(-1) * 2,
    "larger": lambda a: (F.interpolate(a[None, None], scale_factor=2) + 1).relu(), "kept": lambda a: -(-a).roll(1, 0),
    "edges": lambda a: F.pad(a[None], (2, 1), mode="replicate") - 1, "mirror": lambda a: F.pad(
        a[None], (1, 1), mode="reflect").mean(), "half": lambda a: F.pad(a.bfloat16(), (1, 1)) * 0.5,
}  # fmt: skip
MAP_WRITES: dict[str, Callable] = {
    "roll_": lambda a, b: a.add_(a.roll(1, -1)), "flip_": lambda a, b: a.copy_(a.flip(-1)), "add_": lambda a, b: a.add_(
        b), "mul_": lambda a, b: a.mul_(b.flip(0)), "half_": lambda a, b: a.mul_(0.5),
    "part_": lambda a, b: a[..., 1:].add_(b.roll(1, 0)[..., 1:]), "zero_": lambda a, b: a[0].zero_(),
}  # fmt: skip
# Programs that draw have these too.
DRAWN: dict[str, Callable] = {
    "dropout": lambda a: F.dropout(a, 0.4), "rand_like": lambda a: torch.rand_like(a), "feature": lambda a: F.dropout1d(
        a, 0.3), "rand": lambda a: torch.rand(a.shape) * a, "bernoulli": lambda a: a.sigmoid().bernoulli(),
    "normal": lambda a: torch.normal(a, 0.5), "alpha": lambda a: F.alpha_dropout(a, 0.2, True),
    "poisson": lambda a: torch.poisson(a.abs()), "rrelu": lambda a: F.rrelu(a, training=True),
    "state": lambda a: a + torch.get_rng_state().sum().item() % 7, "seed": lambda a: torch.manual_seed(5) and a + 0,
}  # fmt: skip
DRAWN_INTO: dict[str, Callable] = {
    "uniform_": lambda a, b: a.uniform_(), "normal_": lambda a, b: a.normal_(), "dropout_": lambda a, b: F.dropout(
        a, 0.5, inplace=True), "bernoulli_": lambda a, b: a.bernoulli_(0.3), "stream": lambda a, b: a.uniform_(
        generator=torch.default_generator),
}  # fmt: skip


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a)
        return a * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (a,) = ctx.saved_tensors
        return grad * 2 + a * 0


def _nested_modes(a: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        held = a * 2
        with torch.enable_grad():
            again = a.sin()
    return held + again


def _failing(a: torch.Tensor) -> torch.Tensor:
    a = a + 1
    raise KeyError(tuple(a.shape))


# Indices, several results, memory seen from outside, the host's decisions, functions of the program.
MORE: dict[str, Callable] = {
    "as_strided": lambda a: a.as_strided((2,), (1,)),
    "bits": lambda a: a.view(torch.int32),
    "split": lambda a: torch.cat(a.split(1, 0)[::-1]),
    "max_dim": lambda a: a.max(-1)[0],
    "where_max": lambda a: a.max(0)[1],
    "topk": lambda a: a.topk(1)[0],
    "windows": lambda a: a.unfold(-1, 2, 1),
    "movedim": lambda a: a.movedim(0, -1),
    "squeeze": lambda a: a.squeeze(),
    "flatten": lambda a: a.flatten(),
    "einsum": lambda a: torch.einsum("...i,...i->...", a, a),
    "int": lambda a: a.int(),
    "bool": lambda a: a.bool(),
    "complex": lambda a: torch.complex(a, a * 2),
    "abs": lambda a: a.abs(),
    "real": lambda a: torch.view_as_real(torch.complex(a, a)),
    "nothing": lambda a: a[:0],
    "sum": lambda a: a[:0].sum(),
    "numpy": lambda a: torch.from_numpy(a.detach().numpy()),
    "tolist": lambda a: torch.tensor(a.tolist()),
    "copied": lambda a: copy.deepcopy(a.detach()),
    "rows": lambda a: torch.stack(a.unbind(0)),
    "foreach": lambda a: torch._foreach_add([a, a], 1)[1],
    "function": _Doubled.apply,
    "modes": _nested_modes,
    "fails": _failing,
    "decides": lambda a: a * 2 if a.sum() > 0 else a + 1,
    "mask": lambda a: a[a > 0],
    "list": lambda a: a[[0]],
    "part": lambda a: a[0, ..., 1:],
    "corner": lambda a: a[-1:, 0],
    "every": lambda a: a[...],
    "new": lambda a: a.new_zeros(2, 2),
    "chunks": lambda a: torch.maximum(*a.chunk(2, -1)),
    "sorted": lambda a: a.sort(-1)[1],
    "vmap": lambda a: torch.vmap(torch.sin)(a),
    "mean": lambda a: a.mean(0, True),
    "outer": lambda a: a[..., None] * a[..., None, :],
    "clone": lambda a: a.clone(),
    "half": lambda a: a * 0.5,
    "sin": lambda a: a.sin(),
    "t": lambda a: a.t(),
    "row": lambda a: a[1],
    "step": lambda a: a[:, ::2],
    "type_as": lambda a: a.type_as(torch.zeros(1, dtype=torch.float64)),
    "detach": lambda a: a.detach(),
}
MORE_WRITES: dict[str, Callable] = {
    "out": lambda a, b: torch.add(b, 1, out=a),
    "out_detached": lambda a, b: torch.mul(b.detach(), 2, out=a.detach()),
    "out_part": lambda a, b: torch.exp(b.detach()[..., :1], out=a.detach()[..., :1]),
    "t_": lambda a, b: a.t_(),
    "unsqueeze_": lambda a, b: a.unsqueeze_(0),
    "squeeze_": lambda a, b: a.squeeze_(),
    "detach_": lambda a, b: a.detach_(),
    "constant": lambda a, b: a.requires_grad_(False),
    "data": lambda a, b: setattr(a, "data", b.data.clone()),
    "no_grad": lambda a, b: setattr(a, "grad", None),
    "zero": lambda a, b: a.grad.zero_(),
    "scale": lambda a, b: a.grad.mul_(0.5),
    "put_": lambda a, b: a.index_put_((torch.tensor([0]),), b),
    "scatter_": lambda a, b: a.scatter_(-1, torch.zeros(a.shape[:-1] + (1,), dtype=torch.int64), 1.0),
    "diagonal_": lambda a, b: a.fill_diagonal_(0.5),
    "step": lambda a, b: torch.no_grad()(lambda: a.sub_(a.grad * 0.1))(),
    "numpy": lambda a, b: a.detach().numpy().sort(),
    "foreach_": lambda a, b: torch._foreach_mul_([a.detach(), b.detach()], 0.5),
    "chunk_": lambda a, b: a.chunk(2, -1)[0].add_(1),
    "rows_": lambda a, b: a.unbind(0)[-1].mul_(b.sum()),
    "set_": lambda a, b: a.detach().set_(b.detach()),
    "resize_": lambda a, b: a.detach().resize_(2, 2),
    "part_": lambda a, b: a[0].add_(1),
    "parts_": lambda a, b: a[..., 1:].copy_(b[..., :1]),
    "assign": lambda a, b: a.__setitem__((0, ...), b),
    "masked": lambda a, b: a.__setitem__(a > 0, 0.5),
    "sqrt_": lambda a, b: a.abs_().sqrt_(),
    "addcmul_": lambda a, b: a.addcmul_(b, b, value=0.1),
    "clamp_": lambda a, b: a.clamp_(max=b),
    "view_": lambda a, b: a.view(-1).mul_(2),
}
DEVICE = ["cpu"]  # where programs run
SHAPES = [(3, 4), (3, 4), (3, 4), (4,), (3, 1), (), (4, 4), (2, 3, 4)]
SIZES: dict[int, int] = {}  # what stands in the place of a size
OTHER_SIZES = [{3: 5}, {4: 6}, {3: 4, 4: 7, 2: 3}]


def program(source: random.Random, draws: bool | str = False) -> list[tuple]:
    """Statements: a kind, a name, and positions in the pool of tensors, taken modulo its size when it is run."""
    made: list[tuple] = []
    if draws == "rows":
        for _ in range(source.randint(6, 16)):
            kind, table = source.choice([("unary", ROWS)] * 4 + [("write", ROW_WRITES), ("binary", BINARY)])
            made.append((kind, source.choice(list(table)), source.randrange(60), source.randrange(60), ""))
        return [*made, ("backward", "", source.randrange(60), 1, "")]
    if draws == "maps":
        tables = [("map", MAPS)] * 5 + [("map write", MAP_WRITES), ("binary", BINARY), ("binary", BINARY)]
        for _ in range(source.randint(6, 18)):
            kind, table = source.choice(tables)
            made.append((kind, source.choice(list(table)), source.randrange(60), source.randrange(60), ""))
        return [*made, ("backward", "", source.randrange(60), 1, "")]
    if draws == "more":
        tables = [("more", MORE)] * 4 + [("more write", MORE_WRITES)] * 2 + [("binary", BINARY), ("view", VIEWS)]
        for _ in range(source.randint(5, 16)):
            kind, table = source.choice([*tables, ("backward", {"": None}), ("arrival", {"": None})])
            mode = source.choices(["", "no_grad", "autocast", "inference"], [80, 12, 5, 3])[0]
            made.append((kind, source.choice(list(table)), source.randrange(60), source.randrange(60), mode))
        return made
    if draws:
        for _ in range(source.randint(5, 14)):
            kind, table = source.choice([("unary", DRAWN), ("write", DRAWN_INTO), ("unary", UNARY), ("binary", BINARY)])
            made.append((kind, source.choice(list(table)), source.randrange(60), source.randrange(60), ""))
        return [*made, *program(source)[:4]]
    for _ in range(source.randint(3, 14)):
        kind = source.choices(
            ["unary", "view", "binary", "write", "backward", "hook", "drop", "leaf", "grad", "retain"],
            [24, 16, 22, 20, 4, 3, 5, 2, 2, 2],
        )[0]
        table: dict[str, Any] = {"unary": UNARY, "view": VIEWS, "binary": BINARY, "write": WRITES}.get(kind, {"": None})
        mode = source.choices(["", "no_grad", "autocast", "inference"], [80, 12, 6, 2])[0]
        made.append((kind, source.choice(list(table)), source.randrange(60), source.randrange(60), mode))
    return made


def leaves(seed: int) -> list[torch.Tensor]:
    source = np.random.default_rng(seed)
    pool = []
    for i, shape in enumerate(SHAPES):
        kind = torch.bfloat16 if (seed + i) % 7 == 0 else torch.float64 if (seed + i) % 11 == 0 else torch.float32
        shape = tuple([SIZES.get(n, n) for n in shape])
        tensor = torch.tensor(source.standard_normal(shape)).to(kind).to(DEVICE[0])
        pool.append(tensor.requires_grad_((seed + i) % 3 == 0))
    return pool


def _mode(name: str) -> Any:
    if name == "no_grad":
        return torch.no_grad()
    if name == "inference":
        return torch.inference_mode()
    return torch.autocast(DEVICE[0]) if name == "autocast" else contextlib.nullcontext()


def run(statements: list[tuple], seed: int, before: tuple[list, list, list[str]] | None = None,
        begin: int = 0) -> tuple[list, list, list[str]]:  # fmt: skip
    """The pool of tensors afterwards, what hooks saw, and the errors; of statements after others, those are given."""
    if before is None:
        torch.manual_seed(seed)
    pool, seen, errors = before or (leaves(seed), [], [])
    for number, (kind, name, i, j, mode) in enumerate(statements, begin):
        a, b = pool[i % len(pool)], pool[j % len(pool)]
        try:
            with _mode(mode):
                if kind == "unary":
                    pool.append(({**ROWS, **UNARY, **DRAWN}[name])(a))
                elif kind == "map":
                    pool.append(MAPS[name](a))
                elif kind == "more":
                    pool.append(MORE[name](a))
                elif kind == "more write":
                    MORE_WRITES[name](a, b)
                elif kind == "arrival":
                    a.register_post_accumulate_grad_hook(lambda p, n=number: seen.append((n, p.grad.clone())))
                elif kind == "map write":
                    MAP_WRITES[name](a, b)
                elif kind == "view":
                    pool.append(VIEWS[name](a))
                elif kind == "binary":
                    pool.append(BINARY[name](a, b))
                elif kind == "write":
                    ({**ROW_WRITES, **WRITES, **DRAWN_INTO}[name])(a, b)
                elif kind == "backward":
                    a.float().sum().backward(retain_graph=bool(j % 2))
                elif kind == "grad":
                    pool.append(torch.autograd.grad((a * a).sum(), a)[0])
                elif kind == "hook":
                    a.register_hook(lambda g, n=number: seen.append((n, g)) or g * 0.5)
                elif kind == "retain":
                    a.retain_grad()
                elif kind == "leaf":
                    a.requires_grad_()
                elif len(pool) > 5:
                    del pool[i % len(pool)]
        except Exception as error:
            errors.append(f"{number} {type(error).__name__}: {error}")
        del a, b
    return pool, seen, errors


def outline(tensor: torch.Tensor) -> tuple:
    version = "inference" if tensor.is_inference() else tensor._version
    try:
        history: tuple = (tensor.is_leaf, type(tensor.grad_fn).__name__)
    except RuntimeError as error:  # a view that was written to where that is forbidden
        history = (str(error),)
    strides = tuple(step for n, step in zip(tensor.shape, tensor.stride(), strict=True) if n > 1)
    return (tuple(tensor.shape), strides, tensor.dtype, tensor.requires_grad, version, tensor._is_view(),
            tensor.storage_offset(), *history)  # fmt: skip


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    a, b = (t.detach().to(torch.complex128 if t.is_complex() else torch.float64).cpu().numpy() for t in (one, other))
    exact = 2e-2 if one.dtype is torch.bfloat16 or other.dtype is torch.bfloat16 else 1e-4
    return a.shape == b.shape and np.allclose(a, b, rtol=exact, atol=exact, equal_nan=True)


def in_a_pipeline(statements: list[tuple], seed: int) -> tuple[list, list, list[str]]:
    """What a program gives; every second one was recorded before, wholly, with results that are held, and in part."""
    held = []
    for earlier in (statements, statements[:3]) if seed % 2 else ():
        with torch.pipeline():
            held.append(run(earlier, seed))
    with torch.pipeline():
        return run(statements, seed)


def recorded_often(statements: list[tuple], seed: int) -> tuple[list, list, list[str]]:
    """What a program gives that was recorded before, wholly and to its middle, with results that nobody held."""
    for end in (None, len(statements) // 2, None):
        with torch.pipeline():
            run(statements[:end], seed)
    with torch.pipeline():
        return run(statements, seed)


def after_other_sizes(statements: list[tuple], seed: int) -> tuple[list, list, list[str]]:
    """What a program gives after it was recorded with tensors of other sizes, whose plan may serve these."""
    for sizes in OTHER_SIZES[seed % 3], {}:
        SIZES.clear()
        SIZES.update(sizes)
        with torch.pipeline():
            result = run(statements, seed)
    return result


def interrupted(statements: list[tuple], seed: int) -> tuple[list, list, list[str]]:
    """What a program gives of which an error leaves the first block, and the rest is recorded in another."""
    middle = len(statements) // 2
    for _ in range(1 + seed % 2):
        with contextlib.suppress(ZeroDivisionError), torch.pipeline():
            before = run(statements[:middle], seed)
            raise ZeroDivisionError
        with torch.pipeline():
            result = run(statements[middle:], seed, before, middle)
    return result


def in_threads(statements: list[tuple], seed: int) -> tuple[list, list, list[str]]:
    """What a program gives in a thread, while others record it, too, begin others, or compute at once."""
    others = [threading.Thread(target=in_a_pipeline, args=(some, seed)) for some in (statements, statements[1:])]
    others.append(threading.Thread(target=run, args=(statements, seed)))
    for other in others:
        other.start()
    try:
        return in_a_pipeline(statements, seed)
    finally:
        for other in others:
            other.join()


def replayed(statements: list[tuple], seed: int) -> tuple[list, list, list[str]]:
    """What a compiled program gives the third time."""
    function = torch.compile(run, mode="reduce-overhead")
    for _ in range(2):
        function(statements, seed)
    return function(statements, seed)


def compiled(statements: list[tuple], seed: int) -> tuple[list, list, list[str]]:
    return torch.compile(run)(statements, seed)


def differences(seed: int, way: Callable = in_a_pipeline, draws: bool | str = False) -> list[str]:
    """How a program differs inside a pipeline, or run in another way."""
    statements = program(random.Random(seed), draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool, seen, errors = run(statements, seed)
        deferred, deferred_seen, deferred_errors = way(statements, seed)
        found = []
        if errors != deferred_errors:
            found.append(f"errors {errors} and {deferred_errors}")
        if len(pool) != len(deferred):
            return [*found, f"{len(pool)} and {len(deferred)} tensors"]
        for at, (one, other) in enumerate(zip(pool, deferred, strict=True)):
            if other._pending:
                found.append(f"tensor {at} is pending")
            if outline(one) != outline(other):
                found.append(f"tensor {at}: {outline(one)} and {outline(other)}")
            elif not same_values(one, other):
                found.append(f"tensor {at}: {one.tolist()} and {other.tolist()}")
            grads = [t._grad for t in (one, other)]
            if (grads[0] is None) is not (grads[1] is None):
                found.append(f"grad {at}: {grads}")
            elif grads[0] is not None and (
                outline(grads[0]) != outline(grads[1]) or not same_values(grads[0], grads[1])
            ):
                found.append(f"grad {at}: {outline(grads[0])} {grads[0].tolist()} and {outline(grads[1])} "
                             f"{grads[1].tolist()}")  # fmt: skip
        if [n for n, _ in seen] != [n for n, _ in deferred_seen]:
            found.append(f"hooks {seen} and {deferred_seen}")
        elif not all(same_values(g, h) for (_, g), (_, h) in zip(seen, deferred_seen, strict=True)):
            found.append(f"gradients in hooks {seen} and {deferred_seen}")
    return found


def told(seed: int, draws: bool | str = False) -> str:
    return f"program {seed}: {program(random.Random(seed), draws)}"


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups run as such at once, computed by NumPy."""
    monkeypatch.setattr(running, "code_of", Interpreted)
    running.forget()
    yield
    running.forget()


def test_a_number_is_copied_by_a_fused_step(interpreted: None) -> None:
    x, y = torch.tensor([0.5, 0.75]), torch.tensor([1.0, 2.0])
    with torch.pipeline():
        x.copy_(1.5)
        x.mul_(y)
        y.copy_(x)
    assert (x.tolist(), y.tolist()) == ([1.5, 3.0], [1.5, 3.0])


def test_programs_with_fused_steps(interpreted: None) -> None:
    before = Interpreted.launches
    found = {told(seed): wrong for seed in (*range(140), 10434, 10628, 50258) if (wrong := differences(seed))}
    assert not found
    assert Interpreted.launches > before + 100


def test_programs_call_by_call() -> None:
    found = {told(seed): wrong for seed in range(1000, 1060) if (wrong := differences(seed))}
    assert not found


def test_programs_that_draw(interpreted: None) -> None:
    """Numbers are drawn in the order of the calls, whatever else looks at the stream."""
    found = {told(seed, True): wrong for seed in range(60) if (wrong := differences(seed, draws=True))}
    assert not found


def test_programs_of_rows(interpreted: None) -> None:
    """Softmax, norms, and sums over rows whose results go on in the same kernel."""
    before = Interpreted.rows
    found = {told(seed, "rows"): wrong for seed in range(80) if (wrong := differences(seed, draws="rows"))}
    assert not found
    assert Interpreted.rows > before + 100


@pytest.mark.parametrize("draws", [False, True, "rows"])
def test_programs_that_are_recorded_often(
    interpreted: None, monkeypatch: pytest.MonkeyPatch, draws: bool | str
) -> None:
    """Public functions know how to record their operators, and composites what they recorded the last time."""
    monkeypatch.setattr(tracing, "_OFTEN", 1)
    taken: list[Any] = []
    take = Shortcut.take
    monkeypatch.setattr(Shortcut, "take", lambda *args: taken.append(args) or take(*args))
    found = {
        told(seed, draws): wrong for seed in range(3000, 3080) if (wrong := differences(seed, recorded_often, draws))
    }
    assert not found
    assert len(taken) > 5


def test_programs_of_maps(interpreted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding, rolls, choices by index and the like, in the kernels of what reads them."""
    monkeypatch.setattr(planner, "_LEAST_SUMMED", 1)
    made: list[Any] = []
    commit = Writer.commit
    monkeypatch.setattr(Writer, "commit", lambda self: made.extend(self.taken) or commit(self))
    found = {told(seed, "maps"): wrong for seed in range(120) if (wrong := differences(seed, draws="maps"))}
    assert not found
    assert len(made) > 100


@pytest.mark.parametrize("draws", [False, "rows", "maps"])
def test_programs_after_other_sizes(interpreted: None, monkeypatch: pytest.MonkeyPatch, draws: bool | str) -> None:
    """A plan that serves other sizes does what one made from nothing does."""
    taken: list[Any] = []
    monkeypatch.setattr(resizing, "resized", lambda *args: taken.append(resized(*args)) or taken[-1])
    found = {
        told(seed, draws): wrong for seed in range(2000, 2120) if (wrong := differences(seed, after_other_sizes, draws))
    }
    assert not found
    assert sum(plan is not None for plan in taken) > 60


@pytest.mark.parametrize("way", [in_a_pipeline, recorded_often, interrupted, after_other_sizes])
def test_programs_of_more_kinds(interpreted: None, monkeypatch: pytest.MonkeyPatch, way: Callable) -> None:
    """Indices, out=, memory seen from outside, decisions of the host, functions of the program, errors in between."""
    monkeypatch.setattr(tracing, "_OFTEN", 1)
    found = {told(seed, "more"): wrong for seed in range(4000, 4060) if (wrong := differences(seed, way, "more"))}
    assert not found


def test_programs_in_several_threads() -> None:
    seeds = range(5000, 5020)
    found = {told(seed, "more"): wrong for seed in seeds if (wrong := differences(seed, in_threads, "more"))}
    assert not found


@pytest.mark.parametrize("way", [compiled, replayed])
def test_programs_that_are_compiled(way: Callable) -> None:
    found = {told(seed, "more"): wrong for seed in range(6000, 6020) if (wrong := differences(seed, way, "more"))}
    assert not found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", action="store_true", help="with machine code; MINDTORCH_JIT=now compiles at once")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--under-compile", action="store_true", help="torch.compile in the place of torch.pipeline")
    parser.add_argument("--sizes", action="store_true", help="after the same programs with tensors of other sizes")
    parser.add_argument("--often", action="store_true", help="after the same programs, with functions that record")
    parser.add_argument("--draws", action="store_true", help="programs that take random numbers")
    parser.add_argument("--rows", dest="draws", action="store_const", const="rows", help="programs of whole rows")
    parser.add_argument("--maps", dest="draws", action="store_const", const="maps", help="programs of gather maps")
    parser.add_argument("--more", dest="draws", action="store_const", const="more", help="programs of all the rest")
    parser.add_argument("--replayed", action="store_true", help="torch.compile that replays, the third call")
    parser.add_argument("--interrupted", action="store_true", help="an error leaves the block in the middle")
    parser.add_argument("--threads", action="store_true", help="while other threads record, too")
    given = parser.parse_args()
    DEVICE[0] = given.device
    tracing._OFTEN = 1 if given.often else tracing._OFTEN
    if not given.compiled:
        running.code_of = Interpreted
    wrong = 0
    for seed in range(given.seed, given.seed + given.count):
        try:
            way = after_other_sizes if given.sizes else compiled if given.under_compile else in_a_pipeline
            way = recorded_often if given.often else replayed if given.replayed else way
            way = interrupted if given.interrupted else in_threads if given.threads else way
            found = differences(seed, way, given.draws)
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        if found:
            wrong += 1
            print(told(seed, given.draws), *found, sep="\n    ", flush=True)
    print(f"{given.count} programs, {wrong} differ")


if __name__ == "__main__":
    main()
