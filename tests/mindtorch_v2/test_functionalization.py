"""Functionalization: programs with writes and views as programs that only make new tensors.

The graphs are those that PyTorch 2.13 prints for the same programs.
"""

import pytest
from operator_cases import PRIMARY, arguments, bases, function_of, good_calls, leaves, sampled

import mindtorch_v2 as torch
from mindtorch_v2._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode, dispatch_functionalize
from mindtorch_v2.func import functionalize
from mindtorch_v2.fx.experimental.proxy_tensor import make_fx
from mindtorch_v2.fx.passes.reinplace import reinplace


def graph(function, *args, remove="mutations"):
    """The lines of the traced function's body."""
    code = make_fx(functionalize(function, remove=remove))(*args).code
    return [line.strip() for line in code.strip().splitlines()[1:]]


def write_through_view(x):
    y = x.view(4)
    y.add_(torch.ones(4))
    return x * x


def test_a_write_through_a_view_is_replayed_on_its_base():
    assert graph(write_through_view, torch.zeros(2, 2)) == [
        "view = torch.ops.aten.view.default(x_1, [4])",
        "ones = torch.ops.aten.ones.default([4], device = device(type='cpu'), pin_memory = False)",
        "add = torch.ops.aten.add.Tensor(view, ones);  view = ones = None",
        "view_1 = torch.ops.aten.view.default(add, [2, 2]);  add = None",
        "view_2 = torch.ops.aten.view.default(view_1, [4]);  view_2 = None",
        "mul = torch.ops.aten.mul.Tensor(view_1, view_1)",
        "copy_ = torch.ops.aten.copy_.default(x_1, view_1);  x_1 = view_1 = copy_ = None",
        "return mul",
    ]


def test_views_become_copies_where_they_are_removed_too():
    lines = graph(write_through_view, torch.zeros(2, 2), remove="mutations_and_views")
    assert lines[0] == "view_copy = torch.ops.aten.view_copy.default(x_1, [4])"
    assert not any("aten.view.default" in line for line in lines)


def several_views(x):
    x[0].add_(1)
    x[:, 1].mul_(2)
    x.t()[0].zero_()
    x.diagonal().copy_(torch.ones(2))
    first, second = x.split(2)
    first.add_(second)
    x.transpose(0, 1).unsqueeze(0).squeeze(0).sin_()
    made = x.clone()
    made[1:3].fill_(3)
    made.unbind(0)[1].mul_(2)
    made.permute(1, 0).view(2, 2, 2)[0].neg_()
    made.t_()
    made.relu_()
    return made


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_values_and_writes_to_arguments_are_those_of_the_program(remove):
    x = torch.arange(8.0).reshape(4, 2)
    mine, theirs = x.clone(), x.clone()
    expected = several_views(mine)
    made = functionalize(several_views, remove=remove)(theirs)
    torch.testing.assert_close(made, expected)
    torch.testing.assert_close(theirs, mine)


# Of those whose elements lie over each other PyTorch makes something else than the program does.
VIEWS = {name: d for name, d in sampled().items()
         if d.inverse is not None and name not in ("aten::expand", "aten::unfold", "aten::as_strided")}


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_write_through_a_view_reaches_its_base(name, remove):
    for call in good_calls(VIEWS[name]):
        (x, *args), kwargs = arguments(call, torch, bases(call, torch, PRIMARY))

        def program(x, args=args, kwargs=kwargs):
            made = x.clone()
            for number, shown in enumerate(leaves(function_of(VIEWS[name])(made, *args, **kwargs))):
                shown.mul_(2.0 + number)
            return made

        torch.testing.assert_close(functionalize(program, remove=remove)(x), program(x))


def test_scatters_put_written_parts_back():
    def write_part(x):
        y = x + 0
        y[1].mul_(2)
        y.diagonal().add_(1)
        return y

    lines = graph(write_part, torch.ones(2, 2))
    assert [line.partition(" = torch.ops.aten.")[2].partition("(")[0] for line in lines[:-1]] == [
        "add.Tensor", "select.int", "mul.Tensor", "select_scatter.default", "select.int", "diagonal.default",
        "diagonal.default", "add.Tensor", "diagonal_scatter.default", "diagonal.default"]


def test_out_arguments_become_results():
    def into(x):
        made = torch.empty(())
        torch.add(x, 1, out=made)
        return made * made

    assert not any("out =" in line for line in graph(into, torch.ones(3)))
    torch.testing.assert_close(functionalize(into)(torch.ones(3)), torch.full((3,), 4.0))


def test_functionalizations_nest():
    def inner(y):
        y.view(-1).add_(1)
        return y * 3

    x = torch.tensor([1.0, 2.0])
    made = functionalize(lambda x: functionalize(inner)(x.clone()) + x.mul_(2))(x)
    torch.testing.assert_close(made, torch.tensor([8.0, 13.0]))
    torch.testing.assert_close(x, torch.tensor([2.0, 4.0]))


def test_transforms_go_inside_and_outside():
    def cube(x):
        y = x.clone()
        y.mul_(x)
        y.view(-1).mul_(x)
        return y.sum()

    x = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(functionalize(torch.func.grad(cube))(x), 3 * x * x)
    torch.testing.assert_close(torch.func.grad(functionalize(cube))(x), 3 * x * x)
    rows = torch.arange(6.0).reshape(3, 2)
    torch.testing.assert_close(torch.vmap(functionalize(cube))(rows), (rows**3).sum(1))


def test_wrappers_by_hand():
    x = torch.zeros(3)
    wrapper = torch._to_functional_tensor(x)
    assert torch._is_functional_tensor(wrapper) and not torch._is_functional_tensor(x)
    wrapper[1:].add_(2)
    torch._sync(wrapper)
    assert torch._from_functional_tensor(wrapper).tolist() == [0.0, 2.0, 2.0]
    assert x.tolist() == [0.0, 0.0, 0.0]
    torch._freeze_functional_tensor(wrapper)
    with pytest.raises(RuntimeError, match="cannot mutate tensors with frozen storage"):
        wrapper.add_(1)


def test_new_tensors_are_wrappers_while_it_is_enabled():
    torch._enable_functionalization(reapply_views=True)
    try:
        made = torch.ones(2)
        with pytest.raises(RuntimeError, match="multiple layers"):
            torch._enable_functionalization()
    finally:
        torch._disable_functionalization()
    assert torch._is_functional_tensor(made) and not torch._is_functional_tensor(torch.ones(2))


def test_a_write_of_a_wrapper_into_a_plain_tensor_is_refused():
    outside = torch.zeros(2)

    def leak(x):
        outside.add_(x)
        return x

    with pytest.raises(RuntimeError, match="mutating a non-functional tensor with a functional tensor"):
        functionalize(leak)(torch.ones(2))
    assert outside.tolist() == [0.0, 0.0]


def test_resizing():
    def smaller(x):
        y = x + 1
        y.resize_(2, 2)
        y.add_(1)
        return y

    def larger(x):
        y = x + 1
        y.resize_(8)
        y.fill_(2)
        return y

    torch.testing.assert_close(functionalize(smaller)(torch.zeros(6)), torch.full((2, 2), 2.0))
    torch.testing.assert_close(functionalize(larger)(torch.zeros(4)), torch.full((8,), 2.0))
    with pytest.raises(RuntimeError, match="Attempted to resize a view tensor to a larger size"):
        functionalize(lambda x: x.view(-1).resize_(9))(torch.zeros(2, 2))


def test_shapes_that_do_not_fit_are_refused_as_ever():
    with pytest.raises(RuntimeError, match=r"output with shape .*2.* doesn't match the broadcast shape .3, 2."):
        functionalize(lambda x: x.add_(torch.ones(3, 2)))(torch.ones(2))


def test_the_mode_and_the_subclass_in_python():
    def write(x):
        flat = x.view(-1)
        x.mul_(2)
        return flat + 1

    assert dispatch_functionalize(write)(torch.tensor([1.0, 2.0])).tolist() == [3.0, 5.0]
    given = torch.tensor([1.0, 2.0])
    with FunctionalTensorMode():
        made = write(FunctionalTensor.to_functional(given))
        assert isinstance(made, FunctionalTensor) and isinstance(torch.ones(2), FunctionalTensor)
    assert made.from_functional().tolist() == [3.0, 5.0]
    with pytest.raises(RuntimeError, match="Attempting to use FunctionalTensor on its own"):
        made + 1


def test_reinplace_writes_where_nobody_reads_any_more():
    def program(x):
        y = x + 1
        y[0].mul_(3)
        return y.relu()

    traced = make_fx(functionalize(program))(torch.zeros(2, 2))
    again = reinplace(traced, torch.zeros(2, 2))
    assert "aten.mul_.Tensor" in again.code and "aten.relu_.default" in again.code
    assert "select_scatter" not in again.code and "aten.add_" not in again.code  # what is given is not written
    x = torch.zeros(2, 2)
    torch.testing.assert_close(again(x), torch.tensor([[3.0, 3.0], [1.0, 1.0]]))
    assert x.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_write_into_windows_that_overlap_is_refused():
    def function(x, step):
        return (x + x).unfold(1, 3, step).abs_()

    with pytest.raises(RuntimeError, match="encountered a tensor being mutated that has internal overlap"):
        functionalize(lambda x: function(x, 2))(torch.ones(1, 5))
    assert functionalize(lambda x: function(x, 3))(-torch.ones(1, 6)).tolist() == [[[2, 2, 2], [2, 2, 2]]]


def test_a_constant_is_copied_at_each_run_of_a_graph():
    def function(x) -> torch.Tensor:
        y = torch.tensor(3)
        y.add_(1)
        return x + torch.ops.aten.lift.default(y)

    made = make_fx(function)(torch.ones(2))
    assert "def forward(self, x_1) -> torch.Tensor:" in made.code and "lift_fresh_copy" in made.code
    assert [made(torch.ones(2)).tolist() for _ in range(2)] == [[5, 5]] * 2
