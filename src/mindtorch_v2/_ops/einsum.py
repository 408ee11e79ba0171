"""Einstein's summation convention: an equation of subscripts over any number of tensors."""

import functools
import math
from collections.abc import Sequence
from typing import Any

from ._declare.op import composite
from ._declare.samples import case, cases, error, t
from .matmul import batch_matmul

Label = Any  # a letter, or ("...", n) for the n-th of the ellipsis' dimensions, counted from the right
ELLIPSIS = "..."


def _parsed(equation: str) -> tuple[list[list[str]], list[str] | None]:
    """The subscripts of each operand, and of the output if the equation has an arrow."""
    terms: list[list[str]] = [[]]
    in_output = False
    i = 0
    while i < len(equation):
        ch = equation[i]
        if ch == " ":
            i += 1
            continue
        place = "the output" if in_output else f"operand {len(terms) - 1}"
        if ch == ".":
            if ELLIPSIS in terms[-1]:
                raise RuntimeError(f"einsum(): found '.' for {place} for which an ellipsis was already found")
            if equation[i : i + 3] != ELLIPSIS:
                raise RuntimeError(f"einsum(): found '.' for {place} that is not part of any ellipsis")
            terms[-1].append(ELLIPSIS)
            i += 3
            continue
        if ch == "," and not in_output:
            terms.append([])
        elif equation[i : i + 2] == "->" and not in_output:
            in_output = True
            terms.append([])
            i += 1
        elif ch.isascii() and ch.isalpha():
            if in_output and ch in terms[-1]:
                raise RuntimeError(f"einsum(): output subscript {ch} appears more than once in the output")
            terms[-1].append(ch)
        else:
            raise RuntimeError(f"einsum(): invalid subscript given at index {i} in the equation string, subscripts "
                               "must be in [a-zA-Z]")
        i += 1
    return (terms[:-1], terms[-1]) if in_output else (terms, None)


def _labels(subscripts: Sequence[str], rank: int, operand: int) -> list[Label]:
    """A label for each dimension, the ellipsis spelt out."""
    letters = len(subscripts) - (ELLIPSIS in subscripts)
    extra = rank - letters
    if ELLIPSIS not in subscripts and extra:
        raise RuntimeError(f"einsum(): the number of subscripts in the equation ({letters}) does not match the number "
                           f"of dimensions ({rank}) for operand {operand} and no ellipsis was given")
    if extra < 0:
        raise RuntimeError(f"einsum(): the number of subscripts in the equation ({letters}) is more than the number of "
                           f"dimensions ({rank}) for operand {operand}")
    return [label for s in subscripts for label in (_covered(extra) if s == ELLIPSIS else [s])]


def _covered(count: int) -> list[Label]:
    return [(ELLIPSIS, n) for n in reversed(range(count))]


def _output_labels(output: list[str] | None, operands: Sequence[Sequence[Label]]) -> list[Label]:
    given = [label for labels in operands for label in labels]
    ellipsis = _covered(1 + max((label[1] for label in given if label.__class__ is tuple), default=-1))
    if output is None:  # the ellipsis, then what appears once, in alphabetical order
        return ellipsis + sorted(label for label in set(given) if label.__class__ is str and given.count(label) == 1)
    for label in output:
        if label != ELLIPSIS and label not in given:
            raise RuntimeError(f"einsum(): output subscript {label} does not appear in the equation for any input "
                               "operand")
    return [label for s in output for label in (ellipsis if s == ELLIPSIS else [s])]


def _check_sizes(shapes: Sequence[Sequence[int]], operands: Sequence[Sequence[Label]]) -> None:
    sizes: dict[Label, int] = {}
    for i, (shape, labels) in enumerate(zip(shapes, operands, strict=True)):
        own: dict[Label, int] = {}
        for label, n in zip(labels, shape, strict=True):
            if own.setdefault(label, n) != n:
                raise RuntimeError(f"einsum(): subscript {label} is repeated for operand {i} but the sizes don't "
                                   f"match, {n} != {own[label]}")
            if label.__class__ is tuple:
                label = ELLIPSIS, label[1]
            known = sizes.get(label, 1)
            if n != 1 and known not in (1, n):
                shown = ELLIPSIS if label.__class__ is tuple else label
                raise RuntimeError(f"einsum(): subscript {shown} has size {n} for operand {i} which does not "
                                   f"broadcast with previously seen size {known}")
            sizes[label] = max(n, known) if n else 0


@functools.lru_cache(maxsize=256)
def _read(equation: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[list[Label]], list[Label]]:
    """The labels of each operand and of the output, for operands that fit the equation."""
    terms, wanted = _parsed(equation)
    if len(terms) != len(shapes):
        amount = "fewer" if len(terms) > len(shapes) else "more"
        raise RuntimeError(f"einsum(): {amount} operands were provided than specified in the equation")
    labels = [_labels(term, len(shape), i) for i, (term, shape) in enumerate(zip(terms, shapes, strict=True))]
    output = _output_labels(wanted, labels)
    _check_sizes(shapes, labels)
    return labels, output


def _without_repeats(tensor: Any, labels: list[Label]) -> tuple[Any, list[Label]]:
    """The diagonal over dimensions that share a label."""
    while len(set(labels)) < len(labels):
        second = next(i for i, label in enumerate(labels) if label in labels[:i])
        label, first = labels[second], labels.index(labels[second])
        tensor = tensor.diagonal(0, first, second)
        labels = [x for i, x in enumerate(labels) if i not in (first, second)] + [label]
    return tensor, labels


def _summed(tensor: Any, labels: list[Label], keep: set[Label]) -> tuple[Any, list[Label]]:
    """The sum over labels that nobody needs any more."""
    over = tuple(i for i, label in enumerate(labels) if label not in keep)
    return (tensor.sum(over) if over else tensor), [label for label in labels if label in keep]


def _arranged(tensor: Any, labels: Sequence[Label], *groups: Sequence[Label]) -> Any:
    """The tensor with the dimensions of the first group as they are, then one dimension for each other group."""
    order = [labels.index(label) for group in groups for label in group]
    if order != list(range(len(order))):
        tensor = tensor.permute(order)
    if all(len(group) == 1 for group in groups[1:]):
        return tensor
    sizes = dict(zip([label for group in groups for label in group], tensor.shape, strict=True))
    return tensor.reshape([sizes[x] for x in groups[0]] + [math.prod(sizes[x] for x in group) for group in groups[1:]])


def _aligned(tensor: Any, labels: Sequence[Label], wanted: Sequence[Label]) -> Any:
    """The tensor with a dimension for each wanted label, of size 1 where it has none."""
    tensor = tensor.permute([labels.index(label) for label in wanted if label in labels])
    for d, label in enumerate(wanted):
        if label not in labels:
            tensor = tensor.unsqueeze(d)
    return tensor


def _product(a: Any, left: list[Label], b: Any, right: list[Label], keep: set[Label],
             output: Sequence[Label]) -> tuple[Any, list[Label]]:
    """The product of two operands, summed over the labels that are not kept."""
    sizes = [dict(zip(labels, x.shape, strict=True)) for x, labels in ((a, left), (b, right))]
    # A dimension of size 1 that meets a larger one is broadcast: as good as not there.
    for label in set(left) & set(right):
        if sizes[0][label] == 1 != sizes[1][label]:
            a, left = a.squeeze(left.index(label)), [x for x in left if x != label]
        elif sizes[1][label] == 1 != sizes[0][label]:
            b, right = b.squeeze(right.index(label)), [x for x in right if x != label]
    a, left = _summed(a, left, keep | set(right))
    b, right = _summed(b, right, keep | set(left))
    batch = [label for label in left if label in right and label in keep]
    inner = [label for label in left if label in right and label not in keep]
    if not inner:
        made = [label for label in output if label in left or label in right]
        made += [label for label in dict.fromkeys(left + right) if label not in made]
        return _aligned(a, left, made) * _aligned(b, right, made), made
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    if rows and columns and set(rows + columns) <= set(output) and output.index(rows[0]) > output.index(columns[0]):
        a, left, rows, b, right, columns = b, right, columns, a, left, rows
    x, y = _arranged(a, left, batch, rows, inner), _arranged(b, right, batch, inner, columns)
    shape = [a.shape[left.index(label)] for label in batch + rows] + [b.shape[right.index(label)] for label in columns]
    if not batch and a.dtype is not b.dtype:  # autocast may bring them together; if not, this product's error is right
        x, y = x.unsqueeze(0), y.unsqueeze(0)
    product = batch_matmul(x, y) if batch or a.dtype is not b.dtype else x.mm(y)
    return (product if list(product.shape) == shape else product.reshape(shape)), batch + rows + columns


@composite("einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", public="",
           samples=cases(case("ij,jk->ik", [t(2, 3), t(3, 4)]), case("ii->i", [t(3, 3)]),
                         case("...ij->...ji", [t(2, 3, 4)]),
                         case("bhqd,bhkd->bhqk", [t(2, 1, 3, 4), t(2, 1, 5, 4)]), case("i,j->ij", [t(2), t(3)]),
                         case("ii", [t(3, 3)]),
                         case("ij,jk,kl->il", [t(2, 3), t(3, 4), t(4, 2)]), case("ij,j->", [t(2, 3), t(1)]),
                         error(RuntimeError, "einsum(): subscript j has size 4 for operand 1 which does not broadcast "
                                             "with previously seen size 3", "ij,jk", [t(2, 3), t(4, 4)])),
           autocast=dict(accelerators="lower"))
def einsum(equation, tensors, path):
    """The sum of products that the equation describes."""
    if not tensors:
        raise RuntimeError("einsum(): must provide at least one operand")
    labels, output = _read(equation, tuple(tensor._array.shape for tensor in tensors))
    pending = [_without_repeats(tensor, own) for tensor, own in zip(tensors, labels, strict=True)]
    steps = [tuple(path[i : i + 2]) for i in range(0, len(path), 2)] if path else [(0, 1)] * (len(pending) - 1)
    for i, j in steps:
        (a, left), (b, right) = pending[i], pending[j]
        others = [x for at, x in enumerate(pending) if at not in (i, j)]
        keep = set(output).union(*(own for _, own in others))
        product = _product(a, left, b, right, keep, output)
        # Without a path, the product takes the first place; with one, the last, as paths are counted.
        pending = [*others, product] if path else [product, *others]
    result, own = _summed(*pending[0], set(output))
    order = [own.index(label) for label in output]
    # A new tensor even where nothing is to do: a view of the one operand.
    same = order == list(range(len(order))) and not any(result is tensor for tensor in tensors)
    return result if same else result.permute(order)
