"""torch.nested: batches of tensors of different sizes. Expected values are what PyTorch 2.13 shows."""

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F

A, B = torch.arange(6.0).reshape(2, 3), torch.arange(9.0).reshape(3, 3)
LAYOUTS = (torch.jagged, torch.strided)


def nested(*parts: torch.Tensor, layout: Any = torch.jagged, **options: Any) -> Any:
    return torch.nested.nested_tensor(list(parts or (A, B)), layout=layout, **options)


def lists(found: Any) -> list:
    return [part.tolist() for part in found.unbind()]


# making and showing --------------------------------------------------------------------------------------------------


def test_a_jagged_tensor_says_what_it_is() -> None:
    made = nested()
    length = made.size(1)
    assert made.is_nested and made.layout is torch.jagged and made.dim() == made.ndim == 3 and len(made) == 2
    assert (made.size(0), made.size(-1), made.numel(), made.dtype) == (2, 3, 15, torch.float32)
    assert repr(made) == f"NestedTensor(size=(2, {length}, 3), offsets=tensor([0, 2, 5]), contiguous=True)"
    assert str(made.shape) == f"torch.Size([2, {length}, 3])" and str(length).startswith("j")
    assert str(made.stride()) == f"(3*{length}, 3, 1)"
    assert made.values().tolist() == [*A.tolist(), *B.tolist()] and made.offsets().tolist() == [0, 2, 5]
    assert made.lengths() is None and not A.is_nested
    assert (made + 1).shape == made.shape != nested().shape  # lengths are equal where offsets are the same tensor
    assert repr(nested(requires_grad=True)).endswith(", requires_grad=True, contiguous=True)")


def test_a_strided_tensor_says_what_it_is() -> None:
    made = nested(A, torch.ones(1, 3), layout=torch.strided)
    assert repr(made) == (
        "nested_tensor([\n  tensor([[0., 1., 2.],\n          [3., 4., 5.]]),\n  tensor([[1., 1., 1.]])\n])"
    )
    assert made.layout is torch.strided and made.is_nested and made.numel() == 9 and made.size(2) == 3
    with pytest.raises(RuntimeError, match="Given dimension 1 is irregular and does not have a size"):
        made.size(1)
    with pytest.raises(RuntimeError, match="NestedTensorImpl doesn't support sizes"):
        made.shape  # noqa: B018 - looking is what raises


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda: nested(torch.ones(2, 3), torch.ones(3, 4)),
            RuntimeError,
            "Cannot represent given tensor list as a nested",
        ),
        (lambda: nested(torch.ones(2), torch.ones(2, 3)), RuntimeError, "all tensors in list must have the same dim"),
        (lambda: nested(torch.ones(2), torch.ones(2).long()), RuntimeError, "list must have the same dtype"),
        (
            lambda: nested(torch.tensor(1.0)),
            RuntimeError,
            "Cannot construct a nested tensor from a list of zero-dim tensors",
        ),
        (lambda: torch.nested.nested_tensor([], layout=torch.jagged), RuntimeError, "from an empty tensor list"),
        (
            lambda: torch.nested.nested_tensor(A),
            TypeError,
            "Only lists (List[Tensor] and List[List...[Scalar]]) are accepted",
        ),
        (
            lambda: torch.nested.nested_tensor_from_jagged(A),
            RuntimeError,
            "At least one of offsets or lengths is required.",
        ),
        (
            lambda: nested() + nested(),
            RuntimeError,
            "cannot call binary pointwise function add.Tensor with inputs of shapes",
        ),
        (lambda: nested() * torch.ones(5, 3), RuntimeError, "cannot call binary pointwise function mul.Tensor with"),
        (lambda: nested() * torch.ones(1, 1, 1, 3), NotImplementedError, "NYI: broadcasting NT with T with larger dim"),
        (lambda: nested() * torch.ones(2, 5, 3), RuntimeError, "The expanded size of the tensor (3) must match the"),
        (lambda: torch.nested.as_nested_tensor(torch.ones(3)), RuntimeError, "Expected tensor argument to have dim()"),
        (
            lambda: torch.nested.as_nested_tensor(nested(), layout=torch.strided),
            RuntimeError,
            "as_nested_tensor(): Converting between nested tensor layouts is not supported",
        ),
        (
            lambda: nested().sum(0),
            RuntimeError,
            "sum(): reducing along the batch dimension but not the ragged dimension",
        ),
        (lambda: nested().sum((1, 2)), RuntimeError, "sum(): reducing along a ragged and non-batch dimension"),
        (
            lambda: nested().softmax(0),
            RuntimeError,
            "softmax(): not supported when reducing across the batch dimension",
        ),
        (
            lambda: nested().transpose(0, 1),
            ValueError,
            "Transpose is not supported on the batch dimension for jagged NT",
        ),
        (lambda: nested().unbind(1), RuntimeError, "unbind(): only supported for NestedTensor on dim=0"),
        (lambda: nested()[:1], RuntimeError, "slice(): not supported for NestedTensor on dim=0"),
        (lambda: nested().select(1, 0), RuntimeError, "select(): not supported for NestedTensor on ragged dim"),
        (lambda: nested().chunk(2, 1), RuntimeError, "chunk(): not supported for NestedTensor on ragged dim"),
        (lambda: torch.cat([nested(), nested()], 0), RuntimeError, "cannot call binary pointwise function cat"),
        (lambda: nested().reshape(2, -1), RuntimeError, "view(): cannot view shape"),
        (lambda: nested().unsqueeze(0), RuntimeError, "unsqueeze(): not supported for NestedTensor on dim=0"),
        (lambda: nested() @ torch.ones(4, 2), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (5x3 and 4x2)"),
        (lambda: nested().cumsum(1), NotImplementedError, "aten.cumsum.default"),
        (lambda: nested().tolist(), RuntimeError, ".tolist() is not supported for tensor subclasses, got NestedTensor"),
        (lambda: nested().item(), RuntimeError, "a Tensor with 15 elements cannot be converted to Scalar"),
        (lambda: bool(nested()), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
        (
            lambda: nested(layout=torch.strided).sum(1),
            RuntimeError,
            "can only be reduced across the last dimension for now",
        ),
        (
            lambda: nested(layout=torch.strided).sum(2),
            RuntimeError,
            "NestedTensor always requires keepdim=True for now.",
        ),
        (
            lambda: nested(layout=torch.strided) @ torch.ones(3, 2),
            RuntimeError,
            "Expected both to be nested, but got a nested",
        ),
        (
            lambda: nested(layout=torch.strided).cumsum(1),
            NotImplementedError,
            "arguments from the 'NestedTensorCPU' backend",
        ),
        (
            lambda: F.linear(nested(layout=torch.strided), torch.ones(2, 4)),
            RuntimeError,
            "Shape mismatch for NestedTensor Linear",
        ),
        (
            lambda: nested(layout=torch.strided).to_padded_tensor(0.0, (2, 1, 3)),
            RuntimeError,
            "Value in output_size is less than NestedTensor padded size. Truncation is not supported.",
        ),
        (
            lambda: torch.nested.narrow(torch.ones(2, 3), 1, torch.tensor([0, 1]), 1),
            RuntimeError,
            "start and length must be integers for the strided layout NT impl",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Callable, kind: type, text: str) -> None:
    with pytest.raises(kind) as raised:
        make()
    assert text in str(raised.value)


def test_ways_to_make_one() -> None:
    values = torch.arange(10.0).reshape(5, 2)
    assert lists(torch.nested.nested_tensor([[1, 2], [3]], layout=torch.jagged)) == [[1, 2], [3]]
    by_offsets = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 5]))
    by_lengths = torch.nested.nested_tensor_from_jagged(values, lengths=torch.tensor([2, 3]))
    assert lists(by_offsets) == lists(by_lengths) == [[[0, 1], [2, 3]], [[4, 5], [6, 7], [8, 9]]]
    holes = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 5]), torch.tensor([1, 2]))
    assert lists(holes) == [[[0, 1]], [[4, 5], [6, 7]]] and not holes.is_contiguous() and holes.numel() == 6
    assert lists(holes.contiguous()) == lists(holes) and holes.contiguous().offsets().tolist() == [0, 1, 3]
    across = torch.nested.nested_tensor_from_jagged(values.t(), torch.tensor([0, 2, 5]), jagged_dim=2)
    assert lists(across)[0] == [[0, 2], [1, 3]]
    wide = torch.arange(20.0).reshape(2, 5, 2)
    pieces = torch.nested.narrow(wide, 1, torch.tensor([0, 1]), torch.tensor([2, 3]), layout=torch.jagged)
    assert lists(pieces) == [wide[0, :2].tolist(), wide[1, 1:4].tolist()]
    mask = torch.tensor([[True, False, True], [False, True, False]])
    assert lists(torch.nested.masked_select(A, mask)) == [[0, 2], [4]]
    assert lists(torch.nested.as_nested_tensor(torch.ones(2, 3), layout=torch.jagged)) == [[1, 1, 1]] * 2


# computing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x,
        lambda x: 1 - x,
        lambda x: x * torch.tensor([1.0, 2.0, 3.0]),
        lambda x: F.gelu(x).sin() / 2,
        lambda x: x.arctan() + x.absolute(),
        lambda x: (x > 2).logical_not(),
        lambda x: torch.where(x > 2, x, -x),
        lambda x: x.clamp(1, 4).to(torch.float64),
        lambda x: torch.ones_like(x) + torch.zeros_like(x),
        lambda x: F.dropout(x, 0.0),
        lambda x: x.masked_fill(x < 3, 0.0),
        lambda x: x.clone().add_(1).mul_(2),
        lambda x: F.softmax(x, -1),
        lambda x: x.log_softmax(-1),
        lambda x: F.layer_norm(x, (3,), torch.arange(3.0), torch.ones(3)),
        lambda x: F.rms_norm(x, (3,)),
        lambda x: F.linear(x, torch.arange(6.0).reshape(2, 3), torch.ones(2)),
        lambda x: x.sum(-1, keepdim=True),
        lambda x: x.transpose(-1, -2).contiguous(),
        lambda x: x.unsqueeze(-1) * 2,
        lambda x: x.chunk(3, -1)[1],
        lambda x: torch.cat([x, x], -1),
        lambda x: x.unflatten(-1, (3, 1)),
        lambda x: x.split([1, 2], -1)[1],
        lambda x: x.unsqueeze(-1).squeeze(-1),
        lambda x: x.bfloat16().float(),
    ],
)
def test_what_leaves_lengths_alone_is_that_of_the_components(layout: Any, function: Callable) -> None:
    found = function(nested(layout=layout))
    assert found.is_nested and found.layout is layout
    for part, given in zip(found.unbind(), (A, B), strict=True):
        torch.testing.assert_close(part, function(given))


def test_reductions_along_the_ragged_dimension() -> None:
    made = nested()
    assert made.sum().item() == 51 and made.mean().item() == pytest.approx(3.4) and made.max().item() == 8
    assert made.sum(1).tolist() == [[3, 5, 7], [9, 12, 15]] and made.sum(1, keepdim=True).shape == (2, 1, 3)
    assert made.mean(1).tolist() == [[1.5, 2.5, 3.5], [3, 4, 5]] and made.prod(1).tolist()[1] == [0, 28, 80]
    assert made.amax(1).tolist() == [[3, 4, 5], [6, 7, 8]] and made.argmax(1).tolist() == [[1, 1, 1], [2, 2, 2]]
    assert made.max(1).indices.tolist() == [[1, 1, 1], [2, 2, 2]] and (made > 2).any().item()
    assert lists(made.sum(2)) == [[3, 12], [3, 12, 21]] and made.sum((0, 1)).tolist() == [12, 17, 22]
    for part in made.softmax(1).unbind():
        torch.testing.assert_close(part.sum(0), torch.ones(3))


def test_dense_tensors_are_broadcast() -> None:
    made = nested()
    rows = torch.tensor([[[1.0, 2.0, 3.0]], [[10.0, 20.0, 30.0]]])
    assert lists(made * rows) == [(A * rows[0]).tolist(), (B * rows[1]).tolist()]
    assert lists(made + torch.ones(1, 1, 3)) == [(A + 1).tolist(), (B + 1).tolist()]
    full = torch.arange(18.0).reshape(2, 3, 3)
    assert lists(made + full) == [(A + full[0, :2]).tolist(), (B + full[1]).tolist()]


def test_shapes() -> None:
    made = nested()
    assert lists(made.view(2, -1, 3, 1)) == [A.reshape(2, 3, 1).tolist(), B.reshape(3, 3, 1).tolist()]
    assert lists(made.reshape(2, made.size(1), -1)) == lists(made.expand(2, -1, 3)) == lists(made)
    assert (
        made.transpose(1, 2).size(2) == made.size(1)
        and made[1].tolist() == B.tolist()
        and made[0, 1].tolist() == [3, 4, 5]
    )
    assert lists(made[..., 0]) == [[0, 3], [0, 3, 6]] and lists(made.select(2, 1)) == [[1, 4], [1, 4, 7]]
    assert lists(made.permute(0, 2, 1)) == [A.t().tolist(), B.t().tolist()] and len(list(made)) == 2
    assert torch.stack([made, made], -1).unbind()[0].shape == (2, 3, 2)
    assert [lists(c) for c in made.chunk(2, 0)] == [[A.tolist()], [B.tolist()]]
    assert made.to_padded_tensor(-1.0)[0].tolist() == [*A.tolist(), [-1] * 3]
    assert made.to_padded_tensor(0.0, (2, 4, 3)).shape == (2, 4, 3) and made.to_padded_tensor(0.0, (2, 1, 3)).shape == (
        2,
        1,
        3,
    )


def test_products() -> None:
    made, weight = nested(), torch.arange(6.0).reshape(3, 2)
    assert lists(made @ weight) == [(A @ weight).tolist(), (B @ weight).tolist()]
    assert lists(torch.bmm(made, torch.stack([weight, -weight]))) == [(A @ weight).tolist(), (-B @ weight).tolist()]
    assert (made.transpose(1, 2) @ made).tolist() == [(A.t() @ A).tolist(), (B.t() @ B).tolist()]
    strided = nested(layout=torch.strided)
    assert lists(strided @ strided.transpose(1, 2)) == [(A @ A.t()).tolist(), (B @ B.t()).tolist()]
    table = torch.arange(6.0).reshape(3, 2)
    assert lists(F.embedding(nested(torch.tensor([0, 1]), torch.tensor([2])), table)) == [[[0, 1], [2, 3]], [[4, 5]]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attention_is_that_of_each_component(layout: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    queries, keys = ([torch.randn(n, 2, 4, generator=generator) for n in lengths] for lengths in ((3, 5), (4, 1)))
    q, k = (nested(*parts, layout=layout).transpose(1, 2) for parts in (queries, keys))
    found = F.scaled_dot_product_attention(q, k, k)
    for part, one, other in zip(found.unbind(), queries, keys, strict=True):
        torch.testing.assert_close(
            part, F.scaled_dot_product_attention(one.transpose(0, 1), other.transpose(0, 1), other.transpose(0, 1))
        )


def test_transformers_take_nested_tensors() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    parts = [torch.randn(3, 8), torch.randn(2, 8)]
    with torch.no_grad():
        found = encoder(nested(*parts, layout=torch.strided))
        for part, given in zip(found.unbind(), parts, strict=True):
            torch.testing.assert_close(part, encoder(given.unsqueeze(0))[0])
        with pytest.raises(AssertionError, match="some Tensor argument has_torch_function"):
            encoder(nested(*parts))
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    given = nested(*parts, layout=torch.strided)
    with pytest.raises(AssertionError, match="outside of its fast path. The fast path was not hit because training is"):
        attention(given, given, given)


# gradients and files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout: Any) -> None:
    leaf = nested(layout=layout, requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad and leaf.grad is None and leaf.grad_fn is None
    product = leaf * leaf
    assert not product.is_leaf and product.grad_fn is not None
    product.to_padded_tensor(0.0).sum().backward()
    assert lists(leaf.grad) == [(2 * A).tolist(), (2 * B).tolist()] and leaf.grad.layout is layout
    (leaf * 3).backward(torch.ones_like(leaf))
    assert lists(leaf.grad) == [(2 * A + 3).tolist(), (2 * B + 3).tolist()]
    leaf.grad = None
    assert leaf.grad is None and not leaf.detach().requires_grad
    (found,) = torch.autograd.grad((leaf * 2).to_padded_tensor(0.0).sum(), leaf)
    assert lists(found) == [torch.full((2, 3), 2.0).tolist(), torch.full((3, 3), 2.0).tolist()]
    x, y = A.clone().requires_grad_(), B.clone().requires_grad_()
    made = torch.nested.as_nested_tensor([x, y], layout=layout)
    made.mul(made).to_padded_tensor(0.0).sum().backward()
    assert not made.is_leaf and x.grad.tolist() == (2 * A).tolist() and y.grad.tolist() == (2 * B).tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_modules_compile_copies_and_files(layout: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    made = nested(layout=layout)
    found = model(made)
    found.to_padded_tensor(0.0).square().sum().backward()
    expected = model[0].weight.grad.clone()
    model.zero_grad()
    (model(A).square().sum() + model(B).square().sum()).backward()
    torch.testing.assert_close(model[0].weight.grad, expected)
    assert lists(torch.compile(lambda x: x * 2 + 1, backend="eager")(made)) == lists(made * 2 + 1)
    assert lists(copy.deepcopy(made)) == lists(made)
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded.layout is layout and lists(loaded) == lists(made)


def test_a_layer_of_attention() -> None:
    torch.manual_seed(0)
    query = nested(layout=torch.strided)
    size = query.unbind()[0].shape[-1]
    weights = (torch.randn(3 * size, size), torch.randn(3 * size), torch.randn(size, size), torch.randn(size))
    function = torch._native_multi_head_attention
    output, attention = function(query, query, query, size, 1, *weights)
    lengths = [len(part) for part in query.unbind()]
    for part, got, given, length in zip(query.unbind(), output.unbind(), attention, lengths, strict=True):
        expected, shares = function(part[None], part[None], part[None], size, 1, *weights)
        torch.testing.assert_close(got, expected[0])
        torch.testing.assert_close(given[:length, :length], shares[0])
        assert not given[length:].any() and not given[:, length:].any()
    assert function(query, query, query, size, 1, *weights, need_weights=False)[1] is None
    with pytest.raises(RuntimeError, match="NestedTensor with mask is not supported yet"):
        function(query, query, query, size, 1, *weights, torch.zeros(2, max(lengths), dtype=torch.bool))
