"""gradcheck: of sparse inputs, of functions with hooks, and what it refuses."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import gradcheck
from mindtorch_v2.autograd.gradcheck import GradcheckError


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc], ids=str)
@pytest.mark.parametrize("kind", [torch.float64, torch.complex128], ids=str)
def test_gradcheck_of_sparse_inputs(layout, masked, fast_mode, kind) -> None:
    dense = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, -1.0]], dtype=kind)
    x, y = dense.to_sparse(layout=layout).requires_grad_(), torch.ones(3, 2, dtype=kind, requires_grad=True)

    def product(x, y):
        return (x.to_dense(masked_grad=masked) * 2) @ y

    assert gradcheck(product, (x, y), masked=masked, fast_mode=fast_mode)
    assert x.to_dense().tolist() == dense.tolist()  # which moved only meanwhile
    if not fast_mode:  # which looks at the elements that are there only
        with pytest.raises(GradcheckError, match="Jacobian mismatch"):
            gradcheck(lambda x: x.to_dense(masked_grad=True) * 2, (x,), masked=False)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_of_hybrid_and_empty_sparse_inputs(fast_mode) -> None:
    dense = torch.zeros(2, 2, 2, dtype=torch.float64)
    dense[1, 0] = torch.tensor([1.0, -2.0], dtype=torch.float64)
    for x in (dense.to_sparse(2), dense.to_sparse(layout=torch.sparse_csr, dense_dim=1), (dense * 0).to_sparse(2)):
        for masked in (False, True):
            assert gradcheck(lambda x, masked=masked: x.to_dense(masked_grad=masked) * 3, (x.requires_grad_(),),
                             masked=masked, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_runs_the_function_with_gradients(fast_mode) -> None:
    x, seen = torch.ones(2, dtype=torch.float64, requires_grad=True), []

    def twice(x):
        made = x * 2
        seen.append(made.requires_grad)
        made.register_hook(lambda grad: grad)
        return tuple(t for t in (made, made.detach()) if t.requires_grad)

    assert gradcheck(twice, (x,), fast_mode=fast_mode)
    assert all(seen)

    def shifted(x):
        made = x.clone()
        made.register_hook(lambda grad: None if grad is None else grad + 1e-2)
        return made

    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(shifted, (x,), atol=1e-1, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(shifted, (x,), fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_refuses_what_has_no_differences(fast_mode) -> None:
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match="Sparse output is not supported at gradcheck yet"):
        gradcheck(lambda x: x.to_sparse(), (x,), raise_exception=False, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="^Numerical gradient for function expected to be zero$"):
        gradcheck(lambda x: x.detach() * 2, (x,), fast_mode=fast_mode)
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        gradcheck(lambda x: x * 2, (x[:1].expand(3),), fast_mode=fast_mode)
    with pytest.raises(AssertionError, match="outputs with the same shape when inputs are perturbed"):
        gradcheck(lambda x: x if (x >= 1).all() else x[:1], (x,), fast_mode=fast_mode)
    with pytest.raises(AssertionError, match="outputs with the same dtype when inputs are perturbed"):
        gradcheck(lambda x: x if (x >= 1).all() else x.float(), (x,), fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="grad is sparse tensor, but has incorrect sparse_dim 1, expected 2"):
        gradcheck(_with_other_layout, (torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_(),), masked=True,
                  fast_mode=fast_mode)


def _with_other_layout(x):
    made = x.clone()
    made.register_hook(lambda grad: grad.to_dense().to_sparse(1))
    return made.to_dense()


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
def test_gradcheck_of_batches_where_the_function_keeps_gradients() -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)

    def kept(x):
        inner = x.clone()
        loss = (inner**3).sum()
        loss.backward(inputs=(inner,), create_graph=True)
        return loss, inner * 2

    assert gradcheck(kept, (x,), check_batched_grad=True)


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda x: x.clone(), torch.complex128, "^While considering the imaginary part of complex outputs only, Jacobian "),
    (lambda x: torch.complex(x, x), torch.float64, "^While considering the imaginary part of complex outputs only, J"),
    (lambda x: x.real * 1, torch.complex128, "^Jacobian mismatch for output 0 with respect to input 0"),
], ids=["complex to complex", "real to complex", "complex to real"])
def test_gradcheck_names_the_part_of_a_complex_output(make, kind, text) -> None:
    def shifted(x):
        made = make(x)
        made.register_hook(lambda grad: None if grad is None else grad + 1e-2)
        return made

    with pytest.raises(GradcheckError, match=text):
        gradcheck(shifted, (torch.ones(2, dtype=kind, requires_grad=True),))


class _Two(torch.autograd.Function):
    """Twice and three times a tensor, with gradients that may be missing."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3


class _Handles(_Two):
    @staticmethod
    def backward(ctx, first, second):
        parts = [grad * factor for grad, factor in ((first, 2), (second, 3)) if grad is not None]
        return sum(parts) if parts else None


class _MakesOnes(_Two):
    @staticmethod
    def backward(ctx, first, second):
        return torch.ones(2, dtype=torch.float64) if first is None else _Handles.backward(ctx, first, second)


class _Raises(_Two):
    @staticmethod
    def backward(ctx, first, second):
        if first is None or second is None:
            raise RuntimeError("a gradient is missing")
        return first * 2 + second * 3


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_leaves_gradients_out(fast_mode) -> None:
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(_Handles.apply, (x,), fast_mode=fast_mode)
    with (
        pytest.raises(GradcheckError, match="^Expected all input grads to be undefined or zero when all output"),
        pytest.warns(UserWarning, match="New undefined gradient support checking feature"),
    ):
        gradcheck(lambda x: sum(_MakesOnes.apply(x)), (x,), fast_mode=fast_mode)


def test_gradcheck_calls_hooks_for_gradients_that_are_missing() -> None:
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)

    def hooked(x):
        made = x * 2
        made.register_hook(lambda grad: grad * 1)
        return made.sin()

    with pytest.raises(TypeError, match="NoneType"):
        gradcheck(hooked, (x,))
    assert gradcheck(hooked, (x,), check_undefined_grad=False)


@pytest.mark.filterwarnings("ignore:Backwards compatibility")
def test_gradcheck_of_a_backward_that_refuses_missing_gradients() -> None:
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)

    def both(x):
        return sum(_Raises.apply(x))

    with pytest.raises(GradcheckError, match="^Expected backward function to handle undefined output grads"):
        gradcheck(both, (x,))
    assert not gradcheck(both, (x,), raise_exception=False)
    assert gradcheck(both, (x,), check_undefined_grad=False)


class _Wrapper(torch.Tensor):
    """A tensor that holds another, and hands it every call."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, strides=held.stride())

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def plain(value):
            return value.held if isinstance(value, cls) else value

        found = function(*map(plain, args), **{name: plain(value) for name, value in (kwargs or {}).items()})
        if isinstance(found, (tuple, list)):
            return type(found)(cls(one) for one in found)
        return cls(found) if isinstance(found, torch.Tensor) else found


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_of_a_wrapper_moves_what_it_holds(fast_mode) -> None:
    x = _Wrapper(torch.tensor([0.3, -1.2], dtype=torch.float64)).requires_grad_()
    assert gradcheck(torch.sin, (x,), fast_mode=fast_mode)
    assert x.held.tolist() == [0.3, -1.2]
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(lambda x: x * x.detach(), (x,), fast_mode=fast_mode)


def test_forward_mode_is_checked_on_tensors_without_a_graph() -> None:
    def needs_graph(x):
        made = x * 2
        made.retain_grad()
        return made

    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        gradcheck(needs_graph, (x,), check_forward_ad=True)


def test_the_fast_check_allows_each_element_its_tolerance() -> None:
    """A large input in float32: differences are noise, which PyTorch lets pass too."""
    x = torch.linspace(-1, 1, 40_000).requires_grad_()
    with pytest.warns(UserWarning, match="not a double precision"):
        assert torch.autograd.gradcheck(lambda x: torch.nn.functional.layer_norm(x, (40_000,)), (x,), fast_mode=True)


def test_two_zeros_in_a_product_are_not_differentiated_twice() -> None:
    start = torch.ones(1, dtype=torch.float64, requires_grad=True)
    zeros = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    made = start.scatter_reduce(0, torch.tensor([0, 0]), zeros, "prod")
    (first,) = torch.autograd.grad(made.sum(), zeros, create_graph=True)
    assert first.tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="Double backward is unsupported for src when >1 zeros"):
        torch.autograd.grad(first.sum(), zeros)
