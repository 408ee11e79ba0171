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
