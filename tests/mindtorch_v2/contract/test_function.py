"""torch.autograd.Function: contexts, marks, both styles, and its errors."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import Function
from mindtorch_v2.autograd.function import once_differentiable


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(values), requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, x, scale=1.0):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.scale * 3 * x**2, None


def test_forward_and_backward() -> None:
    x = leaf(2.0, 3.0)
    y = Cube.apply(x, 2.0)
    assert y.tolist() == [16.0, 54.0]
    assert y.grad_fn.name() == "CubeBackward"
    y.sum().backward()
    assert x.grad.tolist() == [24.0, 54.0]


def test_backward_is_differentiable() -> None:
    x = leaf(2.0)
    (first,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [12.0]
    assert torch.autograd.gradgradcheck(Cube.apply, (torch.tensor([0.7], dtype=torch.float64, requires_grad=True),))


def test_setup_context_style() -> None:
    class Product(Function):
        @staticmethod
        def forward(x, y):
            assert not torch.is_grad_enabled()
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y = inputs
            ctx.save_for_backward(x, y)
            ctx.shown = output.tolist()

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            assert ctx.shown == [6.0]
            return grad * y, grad * x

    x, y = leaf(2.0), leaf(3.0)
    Product.apply(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([3.0], [2.0])


def test_needs_input_grad() -> None:
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx, a, number, b):
            seen.append(ctx.needs_input_grad)
            return a + b

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.needs_input_grad)
            return grad, None, None

    Look.apply(leaf(1.0), 5, torch.ones(1)).sum().backward()
    assert seen == [(True, False, False)] * 2


def test_nothing_is_recorded_without_need() -> None:
    assert Cube.apply(torch.ones(1)).grad_fn is None
    with torch.no_grad():
        assert not Cube.apply(leaf(1.0)).requires_grad


def test_several_outputs_and_missing_gradients() -> None:
    seen = []

    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            seen.append((first.tolist(), second.tolist()))
            return first * 2 + second * 3

    x = leaf(1.0)
    Both.apply(x)[1].sum().backward()
    assert seen == [([0.0], [1.0])]
    assert x.grad.tolist() == [3.0]


def test_set_materialize_grads() -> None:
    seen = []

    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            seen.append(first)
            return second * 3

    Both.apply(leaf(1.0))[1].sum().backward()
    assert seen == [None]


def test_mark_non_differentiable() -> None:
    class Sort(Function):
        @staticmethod
        def forward(ctx, x):
            values, indices = x.sort()
            floating = indices.to(torch.float32)
            ctx.mark_non_differentiable(indices, floating)
            ctx.save_for_backward(indices)
            return values, indices, floating

        @staticmethod
        def backward(ctx, grad, *rest):
            (indices,) = ctx.saved_tensors
            return torch.zeros_like(grad).scatter(0, indices, grad)

    x = leaf(3.0, 1.0, 2.0)
    values, indices, floating = Sort.apply(x)
    assert values.requires_grad and not indices.requires_grad and not floating.requires_grad
    (values * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [3.0, 1.0, 2.0]


def test_mark_dirty() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(1.0, 2.0)
    y = x * 1
    version = y._version
    z = Double.apply(y)
    assert z is y and y._version == version + 2  # the write, and the mark
    assert y.grad_fn.name() == "DoubleBackward"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Double.apply(x)


def test_an_input_returned_as_it_is_becomes_a_view() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x and y.grad_fn.name() == "SameBackward"
    y.sum().backward()
    assert x.grad.tolist() == [5.0]


def test_a_view_from_forward_is_not_written() -> None:
    class Part(Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1]

        @staticmethod
        def backward(ctx, grad):
            return torch.cat([grad, grad * 0])

    y = Part.apply(leaf(1.0, 2.0) * 1)
    with pytest.raises(
        RuntimeError, match="is a view and is being modified inplace. This view was created inside a custom Function"
    ):
        y.mul_(2)


def test_once_differentiable() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            assert not torch.is_grad_enabled()
            (x,) = ctx.saved_tensors
            return grad * 2 * x

    x = leaf(3.0)
    (first,) = torch.autograd.grad(Once.apply(x).sum(), x)
    assert first.tolist() == [6.0]
    (first,) = torch.autograd.grad((Once.apply(x) * x).sum(), x, create_graph=True)
    with pytest.raises(
        RuntimeError, match="trying to differentiate twice a function that was marked with @once_differentiable"
    ):
        first.sum().backward()


def test_saved_outputs_and_inputs_are_watched() -> None:
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    x = leaf(0.0)
    y = Exp.apply(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [1.0]
    y = Exp.apply(x)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_saved_tensors_are_freed() -> None:
    y = Cube.apply(leaf(1.0)).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_the_number_of_gradients_is_checked() -> None:
    class Few(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(
        RuntimeError, match=r"function FewBackward returned an incorrect number of gradients \(expected 2, got 1\)"
    ):
        Few.apply(leaf(1.0), leaf(1.0)).sum().backward()


def test_a_gradient_for_no_tensor_is_refused() -> None:
    class Extra(Function):
        @staticmethod
        def forward(ctx, a, number):
            return a * number

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    with pytest.raises(
        RuntimeError, match="ExtraBackward returned a gradient different than None at position 2, but the corr"
    ):
        Extra.apply(leaf(1.0), 2.0).sum().backward()


def test_missing_methods_raise() -> None:
    class Nothing(Function):
        pass

    class Forward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(
        NotImplementedError, match="You must implement the forward function for custom autograd.Function"
    ):
        Nothing.apply(leaf(1.0))
    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        Forward.apply(leaf(1.0)).sum().backward()


def test_outputs_that_are_no_tensors() -> None:
    class Mixed(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, "text", None

        @staticmethod
        def backward(ctx, grad, *rest):
            return grad * 2

    x = leaf(1.0)
    y, text, nothing = Mixed.apply(x)
    assert (text, nothing) == ("text", None)
    y.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_operations_inside_forward_are_not_recorded() -> None:
    class Inside(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            assert y.grad_fn is None
            with torch.enable_grad():
                z = x.detach().requires_grad_() * 3
                assert z.requires_grad
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    Inside.apply(leaf(1.0)).sum().backward()


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_finds_a_wrong_formula(fast_mode: bool) -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Cube.apply, (x,), fast_mode=fast_mode)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(Wrong.apply, (x,), fast_mode=fast_mode)
    assert not torch.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False, fast_mode=fast_mode)


def test_functions_inside_functions() -> None:
    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Cube.apply(x) + 1

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                inner = x.detach().requires_grad_()
                (slope,) = torch.autograd.grad(Cube.apply(inner).sum(), inner)
            return grad * slope

    x = leaf(2.0)
    Outer.apply(x).sum().backward()
    assert x.grad.tolist() == [12.0]


def test_mark_dirty_through_a_view() -> None:
    class Negate(Function):
        @staticmethod
        def forward(ctx, x):
            x.neg_()
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return -grad

    x = leaf(1.0, 2.0, 3.0)
    base = x * 2
    Negate.apply(base[1:])
    assert base.tolist() == [2.0, -4.0, -6.0]
    base.sum().backward()
    assert x.grad.tolist() == [2.0, -2.0, -2.0]


def test_setup_context_with_several_outputs_and_marks() -> None:
    class TopOne(Function):
        @staticmethod
        def forward(x):
            values, indices = x.max(0)
            return values, indices

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1])
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(output[1])
            ctx.shape = inputs[0].shape

        @staticmethod
        def backward(ctx, grad, _):
            made = torch.zeros(ctx.shape)
            made[ctx.saved_tensors[0]] = grad
            return made

    x = leaf(1.0, 5.0, 2.0)
    value, index = TopOne.apply(x)
    assert index.item() == 1 and not index.requires_grad
    value.backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


def test_saving_what_is_no_tensor_is_refused() -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 1 is of type int"):
        Bad.apply(leaf(1.0))


def test_none_may_be_saved() -> None:
    class Optional(Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(weight, x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            weight, x = ctx.saved_tensors
            assert weight is None
            return grad * 2, None

    x = leaf(1.0)
    Optional.apply(x, None).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_old_style_functions_are_refused() -> None:
    class Old(Function):
        def forward(self, x):
            return x

    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"):
        Old()(leaf(1.0))


def test_hooks_on_the_node_of_a_function() -> None:
    x, seen = leaf(1.0), []
    y = Cube.apply(x)
    y.grad_fn.register_hook(
        lambda grad_inputs, grad_outputs: seen.append((grad_inputs[0].tolist(), grad_outputs[0].tolist()))
    )
    y.sum().backward()
    assert seen == [([3.0], [1.0])]


def test_what_was_written_must_be_returned() -> None:
    class Forgets(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(
        RuntimeError, match="Some elements marked as dirty during the forward method were not returned as output"
    ):
        Forgets.apply(leaf(1.0) * 1)


def test_backward_returns_tensors_or_none() -> None:
    class Number(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return 3.0

    with pytest.raises(RuntimeError, match=r"expected Variable or None \(got float\)"):
        Number.apply(leaf(1.0)).sum().backward()


# arguments by name ---------------------------------------------------------------------------------------------------


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, factor=1, shift=0):
        ctx.factor = factor
        return x * factor + shift

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None, None


class ScaledWithContext(Function):
    @staticmethod
    def forward(x, factor=2):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.factor = inputs

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


def test_arguments_may_be_given_by_name():
    x = leaf(2.0)
    for made, slope in (
        (Scaled.apply(x, factor=3), 3),
        (Scaled.apply(shift=1, factor=4, x=x), 4),
        (ScaledWithContext.apply(x), 2),
        (ScaledWithContext.apply(x, factor=5), 5),
    ):
        assert torch.autograd.grad(made, x)[0].tolist() == [slope]


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((1,), {"scale": 3}, "got an unexpected keyword argument 'scale'"),
        ((1, 2), {"factor": 3}, "got multiple values for argument 'factor'"),
        ((1,), {"shift": 3}, r"missing required argument: 'factor' \(position 1\)"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args, kwargs, text):
    with pytest.raises(TypeError, match=rf"forward\(\) {text}"):
        Scaled.apply(*args, **kwargs)


class Double(Function):
    """Writes its input, and counts how often its derivative is asked."""

    asked = 0

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        Double.asked += 1
        return grad * 2


def test_a_function_that_writes_a_view_is_part_of_the_history() -> None:
    x = leaf(1.0, 1.0)
    before = Double.asked
    base = x.clone()
    out = Double.apply(base[:1])
    base.sum().backward()
    assert Double.asked == before + 1
    assert (x.grad.tolist(), out.tolist()) == ([2.0, 1.0], [2.0])


def test_a_function_that_writes_a_view_returns_nothing_else() -> None:
    class WithMore(Double):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2), x + 1

    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        WithMore.apply(leaf(1.0).clone()[:1])


def test_gradients_in_a_list_that_backward_may_empty() -> None:
    class Boxed(Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, grads):
            first, second = grads
            grads.clear()
            return first * 2 + second * 3

    x = leaf(1.0)
    Boxed.apply(x)[1].sum().backward()
    assert x.grad.tolist() == [3.0]


def test_one_derivative_and_marks_of_inputs_only() -> None:
    class Both(Cube):
        vjp = Cube.backward

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(leaf(1.0)).sum().backward()

    class Wrong(Cube):
        @staticmethod
        def forward(ctx, x):
            made = x.clone().view_as(x)
            ctx.mark_dirty(made)
            return made

    with pytest.raises(RuntimeError, match="received a tensor that was not an input"):
        Wrong.apply(leaf(1.0).clone())


def test_a_gradient_that_nobody_can_give_is_not_made() -> None:
    seen = []

    class Second(Function):
        @staticmethod
        def forward(ctx, x):
            other = x.clone()
            ctx.mark_non_differentiable(other)
            ctx._materialize_non_diff_grads = False
            return x.clone(), other

        @staticmethod
        def backward(ctx, first, second):
            seen.append(second)
            return first

    Second.apply(leaf(1.0))[0].sum().backward()
    assert seen == [None]


def test_a_pure_view_is_written_by_way_of_its_base() -> None:
    class Pure(Function):
        @staticmethod
        def forward(ctx, x):
            ctx._is_pure_view = True
            return x.narrow(0, 0, 1)

        @staticmethod
        def backward(ctx, grad):
            raise AssertionError("the view is made again instead")

    x = leaf(1.0, 2.0)
    view = Pure.apply(x.clone())
    view += 3
    view.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]


def test_what_a_node_saved_takes_hooks() -> None:
    x = leaf(3.0)
    y = x * x
    saved = y.grad_fn._raw_saved_self
    assert isinstance(saved, torch.autograd.SavedTensor) and saved.data is x and saved.unpack_hook is None
    saved.register_hooks(lambda t: t.detach() * 2, lambda t: t)
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        saved.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert x.grad.tolist() == [9.0]  # 3 as it is and 6 as it was packed
    with pytest.raises(RuntimeError, match="after it has been freed"):
        saved.register_hooks(lambda t: t, lambda t: t)
    (kept,) = Cube.apply(x).grad_fn._raw_saved_tensors
    assert kept.data is x
    result = x.exp().grad_fn._raw_saved_result
    assert result.unpack().tolist() == x.exp().tolist() and result.data.grad_fn is None


def test_a_pass_says_what_it_runs() -> None:
    x = leaf(1.0)
    y = x * 2
    unused = x * 3
    seen = []

    def hook(grad: torch.Tensor) -> None:
        seen.append((torch._C._current_graph_task_id(), torch._C._current_autograd_node(),
                     torch._C._will_engine_execute_node(y.grad_fn),
                     torch._C._will_engine_execute_node(unused.grad_fn)))

    y.register_hook(hook)
    y.sum().backward()
    ((number, *rest),) = seen
    assert number >= 0 and rest == [y.grad_fn, True, False]
    assert torch._C._current_graph_task_id() == -1 and torch._C._current_autograd_node() is None
