"""Forward-mode differentiation: tangents agree with reverse mode on every operator's samples."""

import warnings
from typing import Any

import numpy as np
import operator_cases as samples
import pytest
from operator_cases import Call, Declaration
from test_operators import each, every_operator, tensors_in

import mindtorch_v2 as torch
import mindtorch_v2.autograd.forward_ad as fwAD

RNG = np.random.default_rng(0)
# PyTorch has no derivative of their complex forms.
REAL_DERIVATIVES = frozenset(("silu", "silu_backward"))


def like(tensor: Any) -> Any:
    """Random numbers in the shape and type of a tensor."""
    made = RNG.standard_normal(tuple(tensor.shape))
    if tensor.dtype.is_complex:
        made = made + 1j * RNG.standard_normal(tuple(tensor.shape))
    return torch.from_numpy(np.array(made)).to(tensor.dtype)


def product(one: Any, other: Any) -> float:
    """The real inner product in which a vector-Jacobian product is the adjoint."""
    return float((one.detach().conj() * other.detach()).sum().real.item() if one.dtype.is_complex
                 else (one.detach() * other.detach()).sum().item())


def lacks_derivative(error: Exception) -> bool:
    """Whether an operator, or the gradient of one, says that it has no derivative; or none that is well defined."""
    return "not implemented" in str(error) or "ill-defined" in str(error)


def duality_gap(call: Call, dtype: str) -> None:
    """<u, J v> is <J^T u, v>: the tangents of the results against the gradients of the inputs."""
    function = samples.seeded(call.declaration, torch, samples.function_of(call.declaration))
    tensors = samples.bases(call, torch, dtype)
    wanted = samples.require_grad(call, tensors)
    args, kwargs = samples.arguments(call, torch, samples.writable(call, tensors))
    results = tensors_in(function(*args, **kwargs))
    at = [i for i, o in enumerate(results) if o.requires_grad]
    if not at:
        return
    seeds = [like(results[i]) for i in at]
    plain = [t.detach() for t in tensors]
    tangents = {i: like(plain[i]) for i in wanted}
    try:
        grads = torch.autograd.grad([results[i] for i in at], [tensors[i] for i in wanted], seeds, allow_unused=True)
        with fwAD.dual_level():
            duals = [fwAD.make_dual(t.clone(), tangents[i].clone()) if i in tangents else t
                     for i, t in enumerate(plain)]
            args, kwargs = samples.arguments(call, torch, duals)
            outputs = tensors_in(function(*args, **kwargs))
            found = [fwAD.unpack_dual(outputs[i]).tangent for i in at]
    except (RuntimeError, NotImplementedError) as error:
        if lacks_derivative(error):
            return
        raise
    for i, tangent in zip(at, found, strict=True):
        assert tangent.shape == outputs[i].shape and not tangent.requires_grad
    ahead = sum(product(s, t) for s, t in zip(seeds, found, strict=True))
    back = sum(product(g, tangents[i]) for g, i in zip(grads, wanted, strict=True) if g is not None)
    if np.isfinite(back):
        np.testing.assert_allclose(ahead, back, rtol=1e-7, atol=1e-7)


@every_operator
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_tangents_agree_with_gradients(declaration: Declaration, dtype: str) -> None:
    calls = samples.good_calls(declaration)
    if dtype == "complex128":
        if samples.base_name(declaration) in REAL_DERIVATIVES:
            return
        calls = [c for c in calls[:4] if runs(c, dtype)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each(calls, lambda call: duality_gap(call, dtype))


def runs(call: Call, dtype: str) -> bool:
    """Whether an operator takes a type at all."""
    try:
        args, kwargs = samples.arguments(call, torch, samples.bases(call, torch, dtype))
        samples.function_of(call.declaration)(*args, **kwargs)
    except (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError):
        return False
    return True


# dual tensors --------------------------------------------------------------------------------------------------------

X = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64)
V = torch.tensor([1.0, 0.5, -2.0], dtype=torch.float64)


def tangent(function: Any, *given: Any) -> Any:
    with fwAD.dual_level():
        return fwAD.unpack_dual(function(*(fwAD.make_dual(x.clone(), v.clone()) for x, v in given))).tangent


def same(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got.detach().numpy(), np.asarray(expected), rtol=1e-10, atol=1e-12)


def test_tangents_are_directional_derivatives() -> None:
    step = 1e-6
    for function in (lambda x: x.sin() * x.exp(), lambda x: x.softmax(0), lambda x: x.outer(x).det() + x.norm(),
                     lambda x: torch.cat([x[:2], x.cumsum(0)]).sort().values, torch.nn.functional.gelu):
        difference = (function(X + step * V) - function(X - step * V)) / (2 * step)
        np.testing.assert_allclose(tangent(function, (X, V)).numpy(), difference.numpy(), rtol=1e-6, atol=1e-8)


def test_levels_end_their_tangents() -> None:
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(X, V)
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, V)
        assert repr(fwAD.make_dual(torch.ones(1), torch.ones(1))) == "tensor([1.], tangent=tensor([1.]))"
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fwAD.enter_dual_level()
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level 0"):
            fwAD.make_dual(dual, V)
        with pytest.raises(NotImplementedError, match="add_out that does not support it"):
            torch.add(dual, 1, out=torch.zeros(3, dtype=torch.float64))
    with fwAD.dual_level():
        assert fwAD.unpack_dual(dual).tangent is None
        assert fwAD.unpack_dual(dual * 2).tangent is None


def test_what_has_no_tangent() -> None:
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, V)
        for made in (dual.detach(), dual.data, dual > 0, dual.long(), torch.zeros_like(dual)):
            assert fwAD.unpack_dual(made).tangent is None
        same(fwAD.unpack_dual(dual.floor()).tangent, np.zeros(3))


def test_writes_carry_tangents_to_base_and_views() -> None:
    with fwAD.dual_level():
        dual = fwAD.make_dual(X.clone(), V.clone())
        base = torch.zeros(3, dtype=torch.float64)
        early = base[1:]
        base[0] = dual[2] * 2
        same(fwAD.unpack_dual(base).tangent, [-4, 0, 0])
        base.mul_(dual)
        same(fwAD.unpack_dual(base).tangent, [-4 * 0.3 + 4.0, 0, 0])
        early.copy_(dual[:2])
        same(fwAD.unpack_dual(base).tangent, [-4 * 0.3 + 4.0, 1, 0.5])
        same(fwAD.unpack_dual(early * 2).tangent, [2, 1])


def test_forward_over_reverse_and_back() -> None:
    """Second derivatives of sum(x**3): along V they are 6 x V."""
    with fwAD.dual_level():
        dual = fwAD.make_dual(X.clone().requires_grad_(), V)
        gradient, = torch.autograd.grad((dual**3).sum(), dual, create_graph=True)
        same(fwAD.unpack_dual(gradient).tangent, (6 * X * V).numpy())
        through_result, = torch.autograd.grad(dual.exp().sum(), dual)
        same(fwAD.unpack_dual(through_result).tangent, (X.exp() * V).numpy())
    leaf = X.clone().requires_grad_()
    with fwAD.dual_level():
        value = fwAD.unpack_dual((fwAD.make_dual(leaf, V) ** 3).sum()).tangent
    value.backward()
    same(leaf.grad, (6 * X * V).numpy())


def test_no_grad_leaves_tangents() -> None:
    with torch.no_grad():
        same(tangent(torch.sin, (X, V)), (X.cos() * V).numpy())
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, V)
        with fwAD._set_fwd_grad_enabled(False):
            assert fwAD.unpack_dual(dual * 2).tangent is None


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.save_for_forward(x)
        return x * 2, factor

    @staticmethod
    def jvp(ctx: Any, of_x: Any, of_factor: None) -> Any:
        (x,) = ctx.saved_tensors
        assert fwAD.unpack_dual(x).tangent is None
        return of_x * 3, None


def test_custom_functions_have_their_own_rule() -> None:
    same(tangent(lambda x: Tripled.apply(x, 1.0)[0], (X, V)), (3 * V).numpy())

    class Unruled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
        tangent(Unruled.apply, (X, V))


def test_gradcheck_looks_at_tangents() -> None:
    leaf = X.clone().requires_grad_()
    assert torch.autograd.gradcheck(torch.sin, leaf, check_forward_ad=True, check_batched_grad=True,
                                    check_batched_forward_grad=True)  # fmt: skip
    assert torch.autograd.gradgradcheck(torch.sin, leaf, check_fwd_over_rev=True)
    with pytest.raises(torch.autograd.GradcheckError, match="Jacobian computed with forward mode mismatch"):
        torch.autograd.gradcheck(lambda x: Tripled.apply(x, 1.0)[0], leaf, check_forward_ad=True,
                                 check_backward_ad=False)  # fmt: skip


def test_modules_with_dual_parameters() -> None:
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2).double()
    weight = net.weight.detach()
    with fwAD.dual_level():
        made = torch.func.functional_call(net, {"weight": fwAD.make_dual(weight, torch.ones_like(weight))}, X)
        same(fwAD.unpack_dual(made).tangent, np.full(2, X.numpy().sum()))


def test_tangents_pass_composites_that_were_called_often() -> None:
    """What is remembered of calls without tangents does not serve those with them."""
    weight = torch.tensor([0.5])
    for _ in range(30):
        torch.prelu(X.reshape(1, 3).float(), weight)
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, V)
        same(fwAD.unpack_dual(dual.reshape(1, 3)).tangent, V.reshape(1, 3).numpy())
        slope = torch.prelu(dual.reshape(1, 3).float(), weight)
        expected = torch.where(X > 0, V, V * 0.5).reshape(1, 3)
        np.testing.assert_allclose(fwAD.unpack_dual(slope).tangent.numpy(), expected.numpy(), rtol=1e-6)


def made_by(forward: Any, jvp: Any) -> Any:
    """Applies a Function with these two rules to a dual tensor of ones, whose tangent is ones."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return forward(ctx, x)

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return jvp(tangent)

    with fwAD.dual_level():
        return fwAD.unpack_dual(Made.apply(fwAD.make_dual(torch.ones(2), torch.ones(2)))).tangent


def written(ctx: Any, x: Any) -> Any:
    ctx.mark_dirty(x)
    return x.mul_(2)


@pytest.mark.parametrize(("forward", "jvp", "text"), [
    (written, lambda t: t * 2, "not modifying the forward mode gradients inplace"),
    (written, lambda t: t, "not modifying the forward mode gradients inplace"),
    (lambda ctx, x: x[:1], lambda t: t[:1].clone(), "but the jvp is not returning a view."),
    (lambda ctx, x: x, lambda t: t, "but the jvp is not returning a view."),
    (lambda ctx, x: x[:1], lambda t: t.clone()[:1], "not returning a view of the given grad input"),
    (lambda ctx, x: x * 2, lambda t: 1, r"expected Variable or None \(got int\) for grad output 0."),
])
def test_tangents_of_a_function_lie_as_its_outputs(forward: Any, jvp: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        made_by(forward, jvp)


def test_tangents_of_a_function_that_writes_or_views() -> None:
    assert made_by(written, lambda t: t.mul_(2)).tolist() == [2.0, 2.0]
    assert made_by(lambda ctx, x: x[:1], lambda t: t[:1]).tolist() == [1.0]
