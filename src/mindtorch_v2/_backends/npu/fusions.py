"""Two calls of a plan as one of ACLNN's: a product with what is added to it, and a sum with the norm of it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._dispatch.registry import Operator
from .aclnn_rows import Row, parse_row, schema_types
from .array import NpuArray, empty
from .chips import WITHOUT_FLOAT32_PRODUCTS, array_types
from .launch import is_offered, run
from .runtime import started

ADDMM = "aclnnAddmm"
FLOAT32 = np.dtype(np.float32)


def fused_product(product: Any, parts: Sequence[Any]) -> Callable | None:
    """A product of matrices to which a matrix or a row is added; None for what else follows one."""
    if len(parts) != 1 or parts[0].name != "add" or product.bias is not None or not hasattr(parts[0].operand, "shape"):
        return None
    layout, addend = product.layout, parts[0].operand
    kind, where = layout.dtype, layout.device.index or 0
    if kind == FLOAT32 and started(where).chip in WITHOUT_FLOAT32_PRODUCTS:
        return None  # what is added would lose digits, too
    if not is_offered(ADDMM, where, (kind, kind, kind, None, None, kind, None)):
        return None

    def launch(shape: tuple[int, ...], left: NpuArray, right: NpuArray, added: NpuArray) -> NpuArray:
        made = empty(shape, kind, left.device_index)
        rows, columns = product.shape
        whole = made.storage.array((rows, columns), kind, 0, (columns * kind.itemsize, kind.itemsize))
        matrices = _seen(added, addend), _seen(left, product.left), _seen(right, product.right)
        run(ADDMM, (*matrices, 1, 1, whole, 0), "aten::addmm")
        return made

    return launch


def _seen(array: NpuArray, matrix: Any) -> NpuArray:
    """An array as a matrix."""
    strides = tuple([step * array.itemsize for step in matrix.strides])
    return array.storage.array(matrix.shape, array.dtype, array.offset, strides)


def fused_sum(operator: Operator, text: str, layouts: dict[str, Any], numbers: dict[str, Any]) -> Callable | None:
    """What a declaration names for a sum and the operator's call of it, by a row; None where the chip has none.

    `layouts` are those of the tensors, of results and of the `sum` by the row's names, `numbers` the other arguments.
    Rows of matrices alone: of other dimensions, documents of several versions say different things.
    """
    if layouts["sum"].ndim < 2 or "weight" in layouts and layouts["weight"].ndim != 1:
        return None
    types, results = schema_types(operator.schema)
    row: Row = parse_row(text, types | results | {"addend": "Tensor", "sum": "Tensor"})
    parameters = [slot.parameter for slot in row.slots]
    where = layouts["sum"].device.index or 0
    values = [slot.value(numbers | layouts) for slot in row.slots]
    if not row.fits(numbers | layouts, lambda value: value in layouts.values()):
        return None
    if not is_offered(row.symbol, where, array_types(parameters, values)):
        return None
    made_names = ("sum", *results)
    read_names = [name for name in layouts if name not in made_names]

    def launch(*arrays: NpuArray) -> list[NpuArray]:
        """The sum and the results, of the summands and the other tensors."""
        made = {name: empty(layouts[name].shape, layouts[name].dtype, where) for name in made_names}
        given = dict(zip(read_names, arrays, strict=True))
        run(row.symbol, [slot.value(numbers | given | made) for slot in row.slots], operator.name)
        return list(made.values())

    return launch
