"""A tour of autograd: what it records, what it forbids, and where one can reach in.

Every step asserts what it claims. Nothing here is special to this library: with `import torch` instead of the
import below, the script runs unchanged under PyTorch and prints the same.
"""

import math

import mindtorch_v2 as torch


def gradients_of_an_expression() -> None:
    """`backward` leaves in each leaf the derivative of the result with respect to it, and adds up over calls."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    print("d(x*x)/dx         ", x.grad.tolist())
    assert x.grad.tolist() == [2.0, 4.0, 6.0]

    (3 * x).sum().backward()
    print("after a second one", x.grad.tolist())
    assert x.grad.tolist() == [5.0, 7.0, 9.0]


def views_and_in_place() -> None:
    """A view shares memory with its base, so writing to one is seen, and differentiated, through the other."""
    weight = torch.ones(2, 3, requires_grad=True)
    base = weight * 1
    row = base[0]
    row.mul_(5)
    print("base after row.mul_", base.tolist())
    assert base[0].tolist() == [5.0, 5.0, 5.0]

    base.sum().backward()
    print("gradient of weight ", weight.grad.tolist())
    assert weight.grad.tolist() == [[5.0, 5.0, 5.0], [1.0, 1.0, 1.0]]


def protection_of_saved_values() -> None:
    """A value that backward still needs carries a version; changing it in place is noticed."""
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    y = x.exp()
    loss = y.sum()
    y.add_(1)
    try:
        loss.backward()
    except RuntimeError as error:
        print("refused:", str(error).split(":")[0])
    else:
        raise AssertionError("a modified saved tensor must be refused")


def double_backward() -> None:
    """With `create_graph=True` the gradient is itself a function that can be differentiated again."""
    x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    derivative = x.sin()
    for order in range(1, 5):
        (derivative,) = torch.autograd.grad(derivative, x, create_graph=True)
        expected = math.sin(0.5 + order * math.pi / 2)
        print(f"sin, derivative {order}: {derivative.item():+.6f}")
        assert math.isclose(derivative.item(), expected, rel_tol=1e-12)


def hooks() -> None:
    """A hook sees a gradient on its way and may replace it; `retain_grad` keeps that of an inner value."""
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    inner = x * 10
    inner.retain_grad()
    handle = inner.register_hook(lambda grad: grad.clamp(-1, 1))
    (inner * inner).sum().backward()
    print("clipped on the way ", inner.grad.tolist(), "->", x.grad.tolist())
    assert x.grad.tolist() == [10.0, -10.0]
    handle.remove()


class Cube(torch.autograd.Function):
    """x ** 3 with a hand-written derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


def own_function() -> None:
    """A custom Function is checked against numerical derivatives, first and second."""
    torch.manual_seed(0)
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Cube.apply, (x,))
    assert torch.autograd.gradgradcheck(Cube.apply, (x,))
    print("Cube: gradcheck and gradgradcheck pass;", Cube.apply(x).grad_fn.name())


def switching_it_off() -> None:
    """Under `no_grad` nothing is recorded; `detach` leaves the graph but shares the memory."""
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    cut = x.detach()
    assert not cut.requires_grad and cut.data_ptr() == x.data_ptr()
    print("no_grad and detach: nothing recorded")


def main() -> None:
    for step in (
        gradients_of_an_expression,
        views_and_in_place,
        protection_of_saved_values,
        double_backward,
        hooks,
        own_function,
        switching_it_off,
    ):
        print(f"\n{step.__doc__}")
        step()


if __name__ == "__main__":
    main()
