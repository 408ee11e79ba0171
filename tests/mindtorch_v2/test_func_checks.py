"""torch.func: what transforms check and refuse, and what they leave as it was outside."""

import re

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._functorch.make_functional import make_functional
from mindtorch_v2.func import grad, jacfwd, jacrev, jvp, vjp, vmap
from mindtorch_v2.testing import assert_close


def test_ranks_of_products_are_checked_for_a_sample():
    def samples(*shape):
        return torch.ones(7, *shape)

    for function, ranks, text in ((torch.mv, (2, 1), "mv"), (torch.mm, (2, 2), "mm"), (torch.bmm, (3, 3), "bmm")):
        for shapes in (((2, 2, 2), (2,)), ((2,), (2, 2)), ((2,), (2, 2, 2))):
            a, b = (len(shape) for shape in shapes)
            message = (f"Shape mismatch: Got incorrect dims for {text}(a, b). a has dim {a}and b has dim {b}but "
                       f"expected them to have dim {ranks[0]} and dim {ranks[1]}")
            with pytest.raises(RuntimeError, match=re.escape(message)):
                vmap(function)(samples(*shapes[0]), samples(*shapes[1]))
            with pytest.raises(RuntimeError, match="Shape mismatch"):
                vmap(function, (0, None))(samples(*shapes[0]), torch.ones(shapes[1]))
    for function in (torch.dot, torch.vdot):
        with pytest.raises(RuntimeError, match="Got wrong shapes for dot"):
            vmap(function, (None, 0))(torch.ones(2, 2), samples(2))


def test_strides_of_new_tensors_inside_vmap_are_those_asked_for():
    for shape, strides, spanned in (([2, 3, 5], [0, 5, 1], 15), ([2, 3, 4], [2, 4, 6], 29), ([0, 2], [1, 1], 0)):
        made = vmap(lambda x, shape=shape, strides=strides: x.new_empty_strided(shape, strides))(torch.ones(7))
        assert (list(made.shape), list(made.stride())) == ([7, *shape], [spanned, *strides])


def test_backward_and_out_are_refused_inside_transforms():
    x = torch.ones(3, requires_grad=True)
    text = re.escape("backward() called inside a functorch transform. This is not supported")
    for call in (lambda: vmap(lambda t: t.sum().backward())(x), lambda: vmap(lambda t: x.sum().backward())(x.detach()),
                 lambda: grad(lambda t: x.sum().backward())(torch.ones([]))):
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(RuntimeError, match=r"Batching rule not implemented for aten::abs.out; the fallback path"):
        vmap(lambda t, out: torch.abs(t, out=out))(torch.ones(2, 3), torch.ones(2, 3))


def test_what_is_given_beside_a_result_are_tensors():
    x = torch.ones(3)
    text = "Expected tensors, got unsupported type <class 'int'>"
    for call in (lambda: grad(lambda t: (t.sum(), [t, 1]), has_aux=True)(x),
                 lambda: vjp(lambda t: (t, 1), x, has_aux=True),
                 lambda: jvp(lambda t: (t, 1), (x,), (x,), has_aux=True),
                 lambda: jacrev(lambda t: (t, 1), has_aux=True)(x),
                 lambda: jacfwd(lambda t: (t, 1), has_aux=True)(x)):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_hooks_on_saved_tensors_are_refused_where_torch_func_runs_backward():
    def outside(transform):
        with torch.autograd.graph.save_on_cpu():
            return transform(lambda t: t.sin().sum())(torch.ones(3))

    def inside(t):
        with torch.autograd.graph.save_on_cpu():
            return t.sin().sum()

    for transform in (grad, jacrev, torch.func.hessian, torch.func.grad_and_value, lambda f: lambda x: vjp(f, x)):
        for call in (lambda t=transform: outside(t), lambda t=transform: t(inside)(torch.ones(3))):
            with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
                call()
    for transform in (jacfwd, vmap, lambda f: lambda x: torch.func.linearize(f, x)):
        outside(transform)


def test_autograd_passed_by_outside_is_not_passed_by_in_a_transform():
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Autograd)
    x = torch.tensor(0.5)
    with torch._C._ExcludeDispatchKeyGuard(keys):
        assert_close(grad(torch.sin)(x), x.cos())
        assert torch._C._dispatch_tls_local_exclude_set().has(torch._C.DispatchKey.Autograd)


def test_an_input_that_is_an_output_is_not_saved_in_setup_context():
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            return g

    for call in (lambda: Same.apply(torch.ones(2)), lambda: grad(lambda x: Same.apply(x.clone()).sum())(torch.ones(2))):
        with pytest.raises(RuntimeError, match="An input that has been returned as-is as output is being saved for"):
            call()


def test_functions_inside_transforms():
    names = []

    class Copied(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g

    def function(x):
        made = Copied.apply(x)
        names.append(type(made.grad_fn).__name__)
        return made

    grad(function)(torch.tensor(1.0))
    assert names == ["CopiedGeneratedBackward"]

    class Named(Copied):
        @staticmethod
        def forward(x, *, y):
            return x + y

    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
        vmap(Named.apply)(torch.ones(3), y=torch.ones(3))


def test_shared_parameters_stay_shared_in_a_functional_module():
    class Shares(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.ones(3))
            self.linear = torch.nn.Linear(3, 3)
            self.linear.bias = self.bias
            self.again = self.linear

        def forward(self, x):
            return self.again(self.linear(x)) + self.bias

    model, x = Shares(), torch.ones(2, 3)
    function, params = make_functional(model)
    assert len(params) == 2
    assert_close(function(params, x), model(x))


def test_transforms_can_be_left_for_a_while():
    def function(x):
        with torch._C._DisableFuncTorch():
            assert not torch._C._are_functorch_transforms_active()
            drawn = torch.rand(2)  # which a vmap refuses
        assert torch._C._are_functorch_transforms_active()
        return x + drawn.shape[0]

    assert vmap(function)(torch.zeros(3)).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda x: x + torch.rand(2))(torch.zeros(3))


def test_running_statistics_that_a_function_captured_move():
    x = torch.arange(12.0).sin().reshape(4, 3)
    for differentiate in (grad, lambda f: grad(lambda x: grad(f)(x).sum()), lambda f: lambda x: jvp(f, (x,), (x,)),
                          lambda f: lambda x: vjp(f, x), jacrev, jacfwd):  # fmt: skip
        mean, variance = torch.zeros(3), torch.ones(3)

        def function(x, mean=mean, variance=variance):
            return torch.nn.functional.batch_norm(x, mean, variance, training=True).exp().sum()

        differentiate(function)(x)
        assert_close(mean, 0.1 * x.mean(0))
        assert_close(variance, 0.9 + 0.1 * x.var(0))
