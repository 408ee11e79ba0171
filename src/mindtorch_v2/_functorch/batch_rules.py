"""Batching rules of operators whose arguments name dimensions or sizes, of products, indexing and convolution.

A value with the level's dimension has it in front, so trailing dimensions and negative numbers of dimensions stay what
they are. `call.full(i)` expands an argument that has none.
"""

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from .._device import channels_last, channels_last_3d, contiguous_format
from .._dispatch.callers import call_bound
from .._dispatch.registry import registry
from .._dtype import bool_, int64, uint8
from .._ops.rules import broadcast_shape, common_dtype
from .._tensor import Tensor, wrapped_dim
from . import decompositions  # noqa: F401 - registers rules of its own
from .batching import Call, aligned, broadcast, like_result, one_by_one, rule

DIMENSIONS = frozenset(("dim", "dims", "dim0", "dim1", "dim2", "dimension"))
Result = tuple[Any, Any]


def _call(name: str, *args: Any) -> Any:
    operator = registry.get(name)
    return call_bound(operator, (*args, *operator.schema.defaults[len(args) :]))


def _shifted(dim: Any, ndim: int) -> Any:
    """Dimensions that users see as those below."""
    if isinstance(dim, (tuple, list)):
        return tuple([wrapped_dim(d, ndim) + 1 for d in dim])
    return wrapped_dim(dim, ndim) + 1


def _inner(value: Any) -> tuple[int, ...]:
    """All dimensions but the level's."""
    return tuple(range(1, value._array.ndim))


def _without(value: Any) -> Any:
    """A value whose samples have lost the one dimension they were given."""
    return value.squeeze(1) if isinstance(value, Tensor) and value._array.ndim > 1 else value


def _each(result: Any, change: Any) -> Any:
    if result.__class__ in (tuple, list) or hasattr(result, "_fields"):
        return like_result(result, [change(r) for r in result])
    return change(result)


# no dimension named --------------------------------------------------------------------------------------------------


@rule("clone", "_to_copy", "zero_", "tril", "triu", "nan_to_num", "frexp", "log_sigmoid", "alias", "view_as_complex",
      "view_as_real", "view.dtype", "constant_pad_nd", "empty_like", "zeros_like", "ones_like", "full_like",
      "linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_ldl_factor_ex", "linalg_qr", "geqrf", "linalg_inv_ex",
      "cholesky_inverse", "_linalg_eigh", "linalg_eig", "_linalg_eigvals", "_linalg_svd", "_linalg_det",
      "_linalg_slogdet", "linalg_matrix_exp", "isin.Tensor_Scalar")
def in_front(call: Call) -> Result:
    """Operators on elements or on the last dimensions: one more in front changes nothing."""
    if not call.batched[0] or sum(map(bool, call.batched)) > 1:
        return one_by_one(call)
    values = list(call.values)
    at = call.operator.schema.index.get("memory_format")
    if at is not None and values[at] in (channels_last, channels_last_3d):
        values[at] = contiguous_format  # that speaks of the dimensions which users see
    return call.run(*values), True


rule("copy_")(broadcast)


@rule("where.self")
def _where(call: Call) -> Result:
    kinds = {v.dtype for v in call.values[1:] if isinstance(v, Tensor)}
    for i in (1, 2):
        if len(kinds) > 1 and call.batched[i] and not call.ndim(i):
            call.values[i] = call.values[i].to(common_dtype(call.args[1:]))
    return broadcast(call)


@rule("masked_fill")
def _masked_fill(call: Call) -> Result:
    if not call.batched[2]:
        return broadcast(call)
    ndim = max(call.ndim(0), call.ndim(1))
    target, mask, number = (aligned(v, b, ndim) for v, b in zip(call.values, call.batched, strict=True))
    made = _call("where.self", mask, number.to(target.dtype), target)
    return (call.values[0].copy_(made) if call.operator.schema.arguments[0].writes else made), True


@rule("fill_")
def _filled(call: Call) -> Result:
    if call.batched[1]:
        return call.values[0].copy_(aligned(call.values[1], True, call.ndim(0))), True
    return call.run(*call.values), True


# dimensions ----------------------------------------------------------------------------------------------------------


def along_dimensions(call: Call) -> Result:
    """Operators of one tensor that name dimensions of it, and perhaps sizes of what it was taken from."""
    arguments, values = call.operator.schema.arguments, list(call.values)
    at = next(i for i, a in enumerate(arguments) if a.is_tensor)
    ndim, added = call.ndim(at), False
    sizes = next((i for i, a in enumerate(arguments) if a.name == "input_sizes"), None)
    if sizes is not None:
        ndim, values[sizes] = len(values[sizes]), (call.size, *values[sizes])
    elif not ndim:
        values[at], ndim, added = values[at].unsqueeze(1), 1, True
    for i, a in enumerate(arguments):
        if a.name not in DIMENSIONS or a.type != "int":
            continue
        if a.is_list and not values[i]:
            if a.name != "dim":
                return one_by_one(call)
            if values[i] is None or call.operator.schema.base_name not in ("any", "all"):  # () is no dimension to them
                values[i] = _inner(values[at])
        elif values[i] is None:
            return _over_all(call, values, at, i)
        else:
            values[i] = _shifted(values[i], ndim)
    result = call.run(*values)
    return (_each(result, _without) if added else result), True


def _over_all(call: Call, values: list[Any], at: int, dim: int) -> Result:
    """A reduction to one number a sample, by an operator that takes one dimension."""
    shape = values[at]._array.shape
    values[at], values[dim] = values[at].reshape((call.size, math.prod(shape[1:]))), 1
    keepdim = call.operator.schema.index.get("keepdim")
    keeps = keepdim is not None and values[keepdim]
    if keepdim is not None:
        values[keepdim] = False
    result = call.run(*values)
    return (_each(result, lambda r: r.reshape((call.size, *(1,) * (len(shape) - 1)))) if keeps else result), True


@rule("max", "min", "median", "nanmedian")
def _extreme(call: Call) -> Result:
    name, value = call.operator.schema.base_name, call.values[0]
    if not value.numel():
        return one_by_one(call)
    if name in ("max", "min"):
        return _call("a" + name, value.reshape((call.size, -1)), (1,)), True
    return _call(name + ".dim", value.reshape((call.size, -1)), 1)[0], True


@rule("max.dim", "min.dim", "median.dim", "nanmedian.dim")
def _extreme_along(call: Call) -> Result:
    return along_dimensions(call)


@rule("unsqueeze")
def _unsqueezed(call: Call) -> Result:
    return call.run(call.values[0], _shifted(call.values[1], call.ndim(0) + 1)), True


@rule("permute")
def _permuted(call: Call) -> Result:
    dims = call.values[1]
    if len(dims) != call.ndim(0):
        raise RuntimeError("permute(sparse_coo): number of dimensions in the tensor input does not match the length "
                           f"of the desired ordering of dimensions i.e. input.dim() = {call.ndim(0)} is not equal to "
                           f"len(dims) = {len(dims)}")
    return call.run(call.values[0], (0, *_shifted(dims, call.ndim(0)))), True


@rule("squeeze")
def _squeezed(call: Call) -> Result:
    return _call("squeeze.dims", call.values[0], _inner(call.values[0])), True


@rule("squeeze.dims", "squeeze.dim")
def _squeezed_dims(call: Call) -> Result:
    value, dim = call.values
    return (call.run(value, _shifted(dim, call.ndim(0))) if call.ndim(0) else value.view(value.shape)), True


@rule("t")
def _t(call: Call) -> Result:
    value = call.values[0]
    if call.ndim(0) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {call.ndim(0)}D")
    return (_call("transpose", value, 1, 2) if call.ndim(0) == 2 else value.view(value.shape)), True


@rule("diag_embed")
def _diag_embed(call: Call) -> Result:
    value, offset, dim1, dim2 = call.values
    return call.run(value, offset, _shifted(dim1, call.ndim(0) + 1), _shifted(dim2, call.ndim(0) + 1)), True


@rule("unfold")
def _unfolded(call: Call) -> Result:
    return along_dimensions(call) if call.ndim(0) else one_by_one(call)


@rule("_softmax_backward_data", "_log_softmax_backward_data", "linalg_cross")
def _along_one(call: Call) -> Result:
    """Operators of several tensors of one shape, along a dimension."""
    values, dim = list(call.values), call.operator.schema.index["dim"]
    tensors = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    ndim = max(call.ndim(i) for i in tensors)
    for i in tensors:
        values[i] = aligned(call.full(i), True, max(ndim, 1))
    values[dim] = _shifted(values[dim], ndim)
    result = call.run(*values)
    return (result if ndim else _without(result)), True


@rule("cat", "stack")
def _joined(call: Call) -> Result:
    is_stack = call.operator.schema.base_name == "stack"
    parts = [call.expanded(v, b) for v, b in zip(call.values[0], call.batched[0], strict=True)]
    if not is_stack:  # an empty vector joins anything
        parts = [p for p in parts if p._array.shape[1:] != (0,)] or parts
    return call.run(tuple(parts), _shifted(call.values[1], parts[0]._array.ndim - 1 + is_stack)), True


# sizes ---------------------------------------------------------------------------------------------------------------


@rule("view", "_unsafe_view", "_reshape_alias")
def _viewed(call: Call) -> Result:
    return call.run(call.values[0], (call.size, *call.values[1])), True


@rule("expand", "repeat")
def _spread(call: Call) -> Result:
    value, size, *rest = call.values
    first = call.size if call.operator.schema.base_name == "expand" else 1
    return call.run(aligned(value, True, len(size)), (first, *size), *rest), True


@rule("_as_strided")
def _strided(call: Call) -> Result:
    value, size, stride, offset, _, begin = call.values
    own = value.storage_offset()
    return call.run(value, (call.size, *size), (value.stride(0), *stride), own + offset - begin, value.stride(),
                    own), True


@rule("new_empty", "new_zeros", "new_ones", "new_full")
def _made_anew(call: Call) -> Result:
    value, size, *rest = call.values
    return call.run(value, (call.size, *size), *rest), True


@rule("new_empty_strided")
def _made_strided(call: Call) -> Result:
    value, size, _, *rest = call.values
    return _call("new_empty", value, (call.size, *size), *rest), True


@rule("one_hot")
def _one_hot(call: Call) -> Result:
    if call.values[1] == -1:
        call.level.refuse("item()")
    return call.run(*call.values), True


def _dynamic(call: Call) -> NoReturn:
    raise RuntimeError("vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap "
                       f"over {call.operator.name}. Please file an issue at https://github.com/pytorch/pytorch/issues "
                       "if you need this feature.")


rule("nonzero", "_unique2", "unique_dim", "unique_consecutive", "bincount", "repeat_interleave.Tensor")(_dynamic)


@rule("masked_select")
def _masked_select(call: Call) -> Result:
    if not call.batched[1]:
        mask = call.values[1]
        shape = broadcast_shape([call.args[0].shape, mask.shape]) or (1,)
        value = aligned(call.values[0], True, len(shape)).expand((call.size, *shape))
        return _call("index.Tensor", value, (None, *mask.expand(shape).nonzero().unbind(1))), True
    raise RuntimeError("vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this "
                       "because for each batch this would return a differently shaped Tensor. Please file an issue at "
                       "https://github.com/pytorch/pytorch/issues if you need this feature.")


# products ------------------------------------------------------------------------------------------------------------


@rule("mm", "bmm", "_batch_matmul")
def _product(call: Call) -> Result:
    ndim = max(call.ndim(0), call.ndim(1))
    one, other = (aligned(call.values[i], call.batched[i], ndim) for i in (0, 1))
    return one.matmul(other), True


def _matrix_vector(call: Call, i: int, j: int) -> Any:
    matrix, vector = call.values[i], call.values[j]
    if not call.batched[i]:
        return vector.matmul(matrix.transpose(-1, -2))
    return matrix.matmul(vector.unsqueeze(-1)).squeeze(-1) if call.batched[j] else matrix.matmul(vector)


@rule("mv")
def _mv(call: Call) -> Result:
    return _matrix_vector(call, 0, 1), True


@rule("dot", "vdot")
def _dot(call: Call) -> Result:
    one = call.values[0].conj() if call.operator.schema.base_name == "vdot" else call.values[0]
    return (one * call.values[1]).sum(-1), True


@rule("addmm", "addmv", "baddbmm")
def _added_product(call: Call) -> Result:
    bias, one, other, beta, alpha = call.values
    product = _matrix_vector(call, 1, 2) if call.operator.schema.base_name.startswith("addmv") else one.matmul(other)
    if not (call.batched[1] or call.batched[2]):
        product = call.expanded(product, False)
    product = product if alpha == 1 else product * alpha
    if beta != 0:
        bias = aligned(bias, call.batched[0], product._array.ndim - 1)
        product = product + (bias if beta == 1 else bias * beta)
    return (call.values[0].copy_(product) if call.operator.schema.arguments[0].writes else product), True


@rule("linear")
def _linear(call: Call) -> Result:
    input, weight, bias = call.values
    ndim = call.ndim(0)
    if call.ndim(1) != 2:
        return one_by_one(call)
    if not call.batched[1]:
        made = call.run(input, weight, None if call.batched[2] else bias)
        if not call.batched[2]:
            return made, True
    else:
        rows = input.reshape((*input.shape[: call.batched[0]], math.prod(call.args[0].shape[:-1]), input.shape[-1]))
        made = rows.matmul(weight.transpose(1, 2))
        made = made.reshape((call.size, *input.shape[call.batched[0] : -1], weight.shape[1]))
    return (made if bias is None else made + aligned(bias, call.batched[2], ndim)), True


@rule("_linear_weight_grad")
def _linear_weight_grad(call: Call) -> Result:
    rows, input = call.full(0), call.full(1)
    features = rows.shape[input._array.ndim - 1 :]
    count = math.prod(input.shape[1:-1])
    rows = rows.reshape((call.size, count, math.prod(features)))
    made = rows.transpose(1, 2).matmul(input.reshape((call.size, count, input.shape[-1])))
    return made.reshape((call.size, *features, input.shape[-1])), True


@rule("linalg_solve_triangular", "cholesky_solve")
def _matrices(call: Call) -> Result:
    values = list(call.values)
    ndim = max(call.ndim(0), call.ndim(1))
    for i in (0, 1):
        values[i] = aligned(call.full(i), True, ndim)
    return call.run(*values), True


@rule("linalg_solve_ex")
def _solved(call: Call) -> Result:
    matrix, other, *rest = call.values
    shape = call.args[0].shape
    is_vector = call.ndim(1) == 1 or call.ndim(0) - 1 == call.ndim(1) and shape[:-1] == call.args[1].shape
    other = call.full(1).unsqueeze(-1) if is_vector else call.full(1)
    ndim = max(call.ndim(0), other._array.ndim - 1)
    result, info = call.run(aligned(call.full(0), True, ndim), aligned(other, True, ndim), *rest)
    return (result.squeeze(-1) if is_vector else result, info.reshape((call.size, *shape[:-2]))), True


# indices -------------------------------------------------------------------------------------------------------------


@rule("gather", "scatter", "scatter_add", "scatter_reduce")
def _elementwise_indices(call: Call) -> Result:
    """Indices that lie as the elements do."""
    values = list(call.values)
    for i, value in enumerate(values):  # a number joins a vector
        if isinstance(value, Tensor):
            values[i] = call.full(i) if call.ndim(i) else call.full(i).unsqueeze(1)
    values[1] = _shifted(values[1], max(call.ndim(0), 1))
    like = 2 if call.operator.schema.base_name == "gather" else 0
    result = call.run(*values)
    return (result if call.ndim(like) else _without(result)), True


def _in_a_row(call: Call, value: Any, dim: int) -> Any:
    """A batched value with the dimension right behind the level's."""
    return value.movedim(_shifted(dim, value._array.ndim - 1), 1)


def _rows(call: Call, like: Any) -> Any:
    """The number of each sample, in a shape that broadcasts against indices."""
    numbers = _call("arange.start_step", 0, call.size, 1, int64, None, like.device)
    return numbers.reshape((call.size, *(1,) * (like._array.ndim - 1)))


@rule("index_select")
def _index_select(call: Call) -> Result:
    value, dim, index = call.values
    if not call.batched[2]:
        return along_dimensions(call)
    if not call.ndim(0) or not call.ndim(2):
        return one_by_one(call)
    value = _in_a_row(call, call.full(0), dim)
    return value[_rows(call, index), index].movedim(1, _shifted(dim, call.ndim(0))), True


@rule("index_add", "index_copy", "index_fill")
def _indexed_update(call: Call) -> Result:
    """Updates of places along one dimension; places of different samples are numbered through."""
    target, dim, index, source, *rest = call.values
    if not call.ndim(0) or not call.ndim(2) or isinstance(source, Tensor) and call.ndim(3) != call.ndim(0):
        return one_by_one(call)
    source = call.full(3) if isinstance(source, Tensor) else source
    if not call.batched[2]:
        return call.run(call.full(0), _shifted(dim, call.ndim(0)), index, source, *rest), True
    target = _in_a_row(call, call.full(0), dim)
    shape, n = target.shape, target.shape[1]
    index = ((index % n if n else index) + _rows(call, index) * n).reshape((-1,))
    if isinstance(source, Tensor):
        source = _in_a_row(call, source, dim)
        source = source.reshape((-1, *source.shape[2:]))
    functional = call.operator.declaration.inplace_of or call.operator
    made = call_bound(functional, (target.reshape((-1, *shape[2:])), 0, index, source, *rest))
    made = made.reshape(shape).movedim(1, _shifted(dim, call.ndim(0)))
    return (call.values[0].copy_(made) if call.operator.schema.arguments[0].writes else made), True


@rule("take")
def _take(call: Call) -> Result:
    value, index = call.values
    n = math.prod(call.args[0].shape)
    places = (index % n if n else index).reshape((*index.shape[: call.batched[1]], -1))
    places = call.expanded(places, call.batched[1])
    value = call.full(0).reshape((call.size, n))
    return value.gather(1, places).reshape((call.size, *call.args[1].shape)), True


def _with_samples(call: Call, indices: Sequence[Any], batched: Sequence[bool], ndim: int) -> tuple[tuple, int | None]:
    """Indices for the values below, and where their dimensions come to lie if that is not where users expect them."""
    for index, own in zip(indices, batched, strict=True):
        if index is not None and own and index.dtype in (bool_, uint8):
            raise RuntimeError("vmap: We do not support batching operators that can support dynamic shape. Attempting "
                               "to batch over indexing with a boolean mask.")
    plain: list[Any] = []
    for index in indices:  # a mask stands for as many indices as it has dimensions
        plain += index.nonzero().unbind(1) if index is not None and index.dtype in (bool_, uint8) else [index]
    flags = [b for index, b in zip(indices, batched, strict=True)
             for _ in range(index._array.ndim if index is not None and index.dtype in (bool_, uint8) else 1)]
    given = [i for i, index in enumerate(plain) if index is not None]
    rank = max(plain[i]._array.ndim - flags[i] for i in given)
    in_a_row = given == list(range(given[0], given[-1] + 1))
    if not any(flags):
        return (None, *plain), (None if in_a_row else rank)
    made = [None if index is None else aligned(index, own, rank) for index, own in zip(plain, flags, strict=True)]
    numbers = _rows(call, made[next(i for i in given if flags[i])])
    return (numbers, *made), (given[0] if in_a_row and given[0] else None)


@rule("index.Tensor")
def _indexed(call: Call) -> Result:
    value, indices = call.values
    any_index = any(call.batched[1])
    if not any_index and not call.batched[0]:
        return call.run(value, indices), False
    value = call.full(0)
    places, moved = _with_samples(call, indices, call.batched[1], call.ndim(0))
    made = call.run(value, places)
    if moved is None:
        return made, True
    if not any_index:  # index dimensions went to the front, before the level's
        return made.movedim(moved, 0), True
    rank = max(i._array.ndim for i in places if i is not None) - 1
    return made.movedim(tuple(range(1, rank + 1)), tuple(range(moved + 1, moved + 1 + rank))), True


@rule("index_put")
def _index_put(call: Call) -> Result:
    target, indices, values, accumulate = call.values
    any_index = any(call.batched[1])
    value = call.full(0)
    places, moved = _with_samples(call, indices, call.batched[1], call.ndim(0))
    if not any_index and moved is None and places[1] is None or any_index and moved is not None or moved is not None:
        return one_by_one(call)
    rank = max(i._array.ndim for i in places if i is not None) - any_index
    result_ndim = rank + value._array.ndim - 1 - sum(p is not None for p in places[1:])
    if call.batched[2]:
        values = aligned(values, True, result_ndim)
    return call.run(value, places, values, accumulate), True


@rule("embedding")
def _embedding(call: Call) -> Result:
    weight, indices, padding_idx, by_frequency, sparse = call.values
    if not call.batched[0]:
        return call.run(*call.values), True
    if padding_idx >= 0 or by_frequency:
        return one_by_one(call)
    if not call.batched[1]:
        made = weight.index_select(1, indices.reshape((-1,)))
        return made.reshape((call.size, *indices.shape, weight.shape[2])), True
    places = indices + _rows(call, indices) * weight.shape[1]
    return call.run(weight.reshape((-1, weight.shape[2])), places, -1, False, sparse), True


@rule("embedding_dense_backward")
def _embedding_backward(call: Call) -> Result:
    _, _, count, padding_idx, by_frequency = call.values
    if by_frequency:
        return one_by_one(call)
    grad, indices = call.full(0), call.full(1)
    if padding_idx >= 0:
        grad = grad.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    places = indices + _rows(call, indices) * count
    made = call.run(grad, places, call.size * count, -1, False)
    return made.reshape((call.size, count, grad.shape[-1])), True


@rule("searchsorted")
def _searchsorted(call: Call) -> Result:
    ordered, value, *options = call.values
    if not call.batched[0] and call.ndim(0) == 1 and options[3] is None:
        return call.run(*call.values), True
    if not isinstance(value, Tensor) or options[3] is not None:
        return one_by_one(call)
    if call.ndim(0) == 1:
        made = call.run(call.full(0), call.full(1).reshape((call.size, -1)), *options)
        return made.reshape((call.size, *call.args[1].shape)), True
    return call.run(call.full(0), call.full(1), *options), True


@rule("bucketize", "isin.Tensor_Tensor")
def _against_a_set(call: Call) -> Result:
    return (call.run(*call.values), True) if not call.batched[1] else one_by_one(call)


# convolution and pooling ---------------------------------------------------------------------------------------------


def _into_channels(value: Any) -> Any:
    """(samples, batch, channels, ...) as (batch, samples * channels, ...)."""
    return value.movedim(0, 1).flatten(1, 2)


def _out_of_channels(value: Any, size: int) -> Any:
    return value.unflatten(1, (size, value.shape[1] // size)).movedim(1, 0)


@rule("convolution")
def _convolution(call: Call) -> Result:
    input, weight, bias, *geometry, groups = call.values
    added = bias if bias is not None and call.batched[2] else None
    bias = None if added is not None else bias
    if not call.batched[1] and call.batched[0]:
        made = call.run(input.flatten(0, 1), weight, bias, *geometry, groups).unflatten(0, (call.size, input.shape[1]))
    elif not call.batched[1]:
        made = call.expanded(call.run(input, weight, bias, *geometry, groups), False)
    else:  # each sample's channels are groups of their own
        made = call.run(_into_channels(call.full(0)), weight.flatten(0, 1),
                        None if bias is None else bias.repeat(call.size), *geometry, groups * call.size)
        made = _out_of_channels(made, call.size)
    if added is not None:
        made = made + added.reshape((call.size, 1, added.shape[1], *(1,) * (made._array.ndim - 3)))
    return made, True


@rule("convolution_backward")
def _convolution_backward(call: Call) -> Result:
    _, _, _, bias_sizes, *geometry, groups, mask = call.values
    size = call.size
    grad, input, weight = (call.full(i) for i in range(3))
    if bias_sizes is not None:
        bias_sizes = (bias_sizes[0] * size,)
    made = call.run(_into_channels(grad), _into_channels(input), weight.flatten(0, 1), bias_sizes, *geometry,
                    groups * size, mask)
    of_input, of_weight, of_bias = made
    return (None if of_input is None else _out_of_channels(of_input, size),
            None if of_weight is None else of_weight.unflatten(0, (size, weight.shape[1])),
            None if of_bias is None else of_bias.unflatten(0, (size, of_bias.shape[0] // size))), True


def _planes(ndim: int | None) -> Any:
    """The rule of operators on (batch, channels, ...) or (channels, ...): the samples join the batch.

    With `ndim` dimensions there is a batch; None if there always is.
    """

    def folded(call: Call) -> Result:
        values = list(call.values)
        tensors = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
        batch = call.args[tensors[0]].shape[0] if ndim in (None, call.ndim(tensors[0])) else None
        for i in tensors:
            values[i] = call.full(i).contiguous().flatten(0, 1) if batch is not None else call.full(i)
        sizes = call.operator.schema.index.get("input_size")
        if sizes is not None:
            values[sizes] = (call.size * values[sizes][0], *values[sizes][1:])
        result = call.run(*values)
        return (result if batch is None else _each(result, lambda r: r.unflatten(0, (call.size, batch)))), True

    return folded


for _pooled in ("max_pool{}d_with_indices", "avg_pool{}d", "_adaptive_avg_pool{}d", "adaptive_max_pool{}d"):
    for _count in (2, 3):
        rule(_pooled.format(_count), _pooled.format(_count) + "_backward")(_planes(_count + 2))
rule("max_unpool2d", "im2col")(_planes(4))
rule("max_unpool3d")(_planes(5))
rule("col2im")(_planes(3))
for _operator in registry:
    if _operator.schema.base_name.removeprefix("_").startswith("upsample_"):
        rule(_operator.schema.base_name)(_planes(None))
