"""An operator of one's own: a NumPy kernel that has a schema, a shape rule and a derivative.

`torch.library.custom_op` reads the schema off the annotations. `register_fake` says what comes out without computing
it, which is what the meta device runs; `register_autograd` gives the derivative. With `import torch` instead of the
import below, the script runs unchanged under PyTorch.
"""

import numpy as np

import mindtorch_v2 as torch


@torch.library.custom_op("example::gaussian", mutates_args=())
def gaussian(x: torch.Tensor, width: float) -> torch.Tensor:
    """exp(-(x / width)^2 / 2), computed by NumPy outside of what autograd can see."""
    return torch.from_numpy(np.exp(-0.5 * (x.detach().numpy() / width) ** 2))


@gaussian.register_fake
def gaussian_result(x, width):
    """A tensor like the result, without its values."""
    return torch.empty_like(x)


def remember(ctx, inputs, output):
    """Keep for backward what the derivative needs."""
    x, ctx.width = inputs
    ctx.save_for_backward(x, output)


def gaussian_derivative(ctx, grad):
    """The gradient for x; none for width, which is a plain number."""
    x, output = ctx.saved_tensors
    return -grad * output * x / ctx.width**2, None


gaussian.register_autograd(gaussian_derivative, setup_context=remember)


def main() -> None:
    x = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)

    y = gaussian(x, 1.0)
    print("on the CPU  ", [round(value, 4) for value in y.tolist()])
    y.sum().backward()
    print("gradient    ", [round(value, 4) for value in x.grad.tolist()])
    assert torch.autograd.gradcheck(lambda x: gaussian(x, 0.7), (x,))
    print("gradcheck    passes")

    on_meta = gaussian(torch.empty(1000, 1000, 1000, device="meta"), 1.0)
    print("on meta     ", tuple(on_meta.shape), on_meta.device, "(nothing computed, no memory taken)")
    assert on_meta.device.type == "meta" and on_meta.shape == (1000, 1000, 1000)

    by_name = torch.ops.example.gaussian(x.detach(), 1.0)
    assert torch.equal(by_name, y.detach())
    print("by name      torch.ops.example.gaussian gives the same")


if __name__ == "__main__":
    main()
