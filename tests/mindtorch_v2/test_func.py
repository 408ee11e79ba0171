"""torch.func: vmap of every operator is a loop over the samples; transforms nest; values are those of calculus."""

import itertools
import warnings
from typing import Any

import numpy as np
import operator_cases as samples
import pytest
from operator_cases import Call, Declaration
from test_operators import each, every_operator, tensors_in

import mindtorch_v2 as torch
from mindtorch_v2 import func

SAMPLES = 2
# Integer arguments that must be in order.
ORDERED = frozenset(("searchsorted", "bucketize", "embedding_bag", "segment_reduce",
                     "_convert_indices_from_csr_to_coo"))  # fmt: skip
# Refused inside vmap, in PyTorch as here: the result's shape, or the way there, depends on values; or one sample would
# be written over by the next.
REFUSING = frozenset("""
    copy_ fill_ masked_select where nonzero nonzero_numpy argwhere repeat_interleave narrow tensor_split _unique2
    unique_dim unique_consecutive unique bincount index_put functional_embedding cov histogram segment_reduce
""".split())


def close(got: Any, expected: Any) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if got.dtype.is_floating_point or got.dtype.is_complex:
        np.testing.assert_allclose(got.numpy(force=True), expected.numpy(force=True), rtol=1e-9, atol=1e-9)
    else:
        np.testing.assert_array_equal(got.numpy(force=True), expected.numpy(force=True))


def refused(call: Call, error: RuntimeError) -> bool:
    texts = ("vmap:", "Cannot access data pointer of Tensor that doesn't have storage")
    return str(error).startswith(texts) and samples.base_name(call.declaration) in REFUSING


def some_samples(call: Call) -> list[list[Any]]:
    """The tensors of a call, in SAMPLES variations: numbers differ, indices and masks, too."""
    bases = samples.bases(call, torch, "float64")
    made = []
    for nr in range(SAMPLES):
        varied = []
        for tensor in bases:
            if tensor.dtype.is_floating_point:
                varied.append(tensor * (1 - 0.05 * nr))
            else:
                flips = nr == 1 and tensor.dim() and samples.base_name(call.declaration) not in ORDERED
                varied.append(tensor.flip(tuple(range(tensor.dim()))) if flips else tensor.clone())
        made.append(varied)
    return made


def compare_with_loop(call: Call, mapped: list[bool]) -> None:
    function = samples.seeded(call.declaration, torch, samples.function_of(call.declaration))
    variations = some_samples(call)

    def run(*tensors: Any) -> Any:
        args, kwargs = samples.arguments(call, torch, list(tensors))
        return tuple(t for t in tensors_in(function(*args, **kwargs)))

    rows = [[v[i] if m else variations[0][i] for i, m in enumerate(mapped)] for v in variations]
    expected = [run(*(t.clone() for t in row)) for row in rows]
    if len({tuple(o.shape for o in row) for row in expected}) > 1 or not expected[0]:
        return
    given = [torch.stack([row[i] for row in rows]) if m else rows[0][i].clone() for i, m in enumerate(mapped)]
    try:
        result = func.vmap(run, in_dims=tuple(0 if m else None for m in mapped), randomness="same")(*given)
    except RuntimeError as error:
        if refused(call, error):
            return
        raise
    for got, column in zip(result, zip(*expected, strict=True), strict=True):
        close(got, torch.stack(list(column)))


@every_operator
def test_vmap_is_a_loop(declaration: Declaration) -> None:
    def check(call: Call) -> None:
        count = len(list(samples.tensor_samples(call.case)))
        patterns = [p for p in itertools.product((True, False), repeat=count) if any(p)]
        for mapped in patterns[:5]:
            compare_with_loop(call, list(mapped))

    name = samples.base_name(declaration)
    if name in samples.UNINITIALISED:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each(samples.good_calls(declaration), check)


def compare_gradients(call: Call) -> None:
    """Per-sample gradients by vmap(grad(f)), and the gradient through vmap(f), against autograd sample by sample."""
    function = samples.seeded(call.declaration, torch, samples.function_of(call.declaration))
    variations = some_samples(call)
    wanted = tuple(i for i, s in enumerate(samples.tensor_samples(call.case)) if s.grad and s.kind == "float")
    if not wanted:
        return

    def loss(*tensors: Any) -> Any:
        args, kwargs = samples.arguments(call, torch, samples.writable(call, tensors))
        outputs = [o for o in tensors_in(function(*args, **kwargs)) if o.dtype.is_floating_point or o.dtype.is_complex]
        squares = [(o * o.conj()).real if o.dtype.is_complex else o * o for o in outputs]
        return sum((square.sum() for square in squares), torch.zeros(()))

    expected = []
    for row in variations:
        leaves = [t.clone().requires_grad_(i in wanted) for i, t in enumerate(row)]
        value = loss(*leaves)
        if not value.requires_grad:
            return
        try:
            grads = torch.autograd.grad(value, [leaves[i] for i in wanted], allow_unused=True)
        except (RuntimeError, NotImplementedError) as error:
            if "not implemented" in str(error):  # the operator has no derivative
                return
            raise
        expected.append([leaves[i].new_zeros(leaves[i].shape) if g is None else g for i, g in zip(wanted, grads)])
    given = [torch.stack(list(column)) for column in zip(*variations, strict=True)]
    try:
        per_sample = func.vmap(func.grad(loss, argnums=wanted), randomness="same")(*given)
        leaves = [t.requires_grad_(i in wanted) for i, t in enumerate(given)]
        total = func.vmap(loss, randomness="same")(*leaves).sum()
        through = torch.autograd.grad(total, [leaves[i] for i in wanted], allow_unused=True)
    except RuntimeError as error:
        if refused(call, error):
            return
        raise
    for column, one, other in zip(zip(*expected, strict=True), per_sample, through, strict=True):
        close(one, torch.stack(list(column)))
        if other is not None:
            close(other, torch.stack(list(column)))


@every_operator
def test_per_sample_gradients(declaration: Declaration) -> None:
    if samples.base_name(declaration) in samples.UNINITIALISED:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each(samples.good_calls(declaration), compare_gradients)


# calculus ------------------------------------------------------------------------------------------------------------

X = torch.tensor([0.1, 0.5, -0.7], dtype=torch.float64)
M = torch.arange(9.0, dtype=torch.float64).reshape(3, 3) / 9


def wave(x: Any) -> Any:
    return (x.sin() * x.exp()).sum()


WAVE_GRADIENT = ((X.sin() + X.cos()) * X.exp()).numpy()
WAVE_HESSIAN = np.diag((2 * X.cos() * X.exp()).numpy())


def same(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got.detach().numpy(), np.asarray(expected), rtol=1e-10, atol=1e-12)


def test_grad_of_grad_has_levels_of_its_own() -> None:
    same(func.grad(wave)(X), WAVE_GRADIENT)
    assert not func.grad(wave)(X).requires_grad
    fifth = torch.tensor(2.0, dtype=torch.float64)
    same(func.grad(func.grad(func.grad(lambda x: x**5)))(fifth), 60 * 4.0)
    one = torch.tensor(1.0)
    # The inner derivative of a + b by b is one, whatever the outer does with a.
    same(func.grad(lambda a: a * func.grad(lambda b: a + b)(one))(one), 1.0)
    same(func.jvp(lambda a: a * func.jvp(lambda b: a + b, (one,), (one,))[1], (one,), (one,))[1], 1.0)


@pytest.mark.parametrize("outer", [func.jacfwd, func.jacrev])
@pytest.mark.parametrize("inner", [func.jacfwd, func.jacrev, func.grad])
def test_hessians_by_every_pair_of_modes(outer: Any, inner: Any) -> None:
    same(outer(inner(wave))(X), WAVE_HESSIAN)
    same(func.vmap(outer(inner(wave)))(torch.stack([X, X])), np.stack([WAVE_HESSIAN] * 2))


def test_third_derivative() -> None:
    made = func.jacfwd(func.hessian(lambda x: (x**4).sum()))(X)
    expected = np.zeros((3, 3, 3))
    expected[range(3), range(3), range(3)] = 24 * X.numpy()
    same(made, expected)


def test_jacobians_of_trees() -> None:
    def f(d: dict, b: Any) -> dict:
        return {"product": d["p"] * b, "sum": d["p"].sum()}

    for transform in (func.jacrev, func.jacfwd):
        made = transform(f, argnums=(0, 1))({"p": X}, X * 2)
        same(made["product"][0]["p"], np.diag(2 * X.numpy()))
        same(made["product"][1], np.diag(X.numpy()))
        same(made["sum"][0]["p"], np.ones(3))
        same(made["sum"][1], np.zeros(3))
        jacobian, aux = transform(lambda x: (x * x, x.sum()), has_aux=True)(X)
        same(jacobian, np.diag(2 * X.numpy()))
        same(aux, X.numpy().sum())


def test_vjp_and_linearize_can_be_called_again() -> None:
    value, pull = func.vjp(lambda a, b: (a * b, a.sum()), X, X + 1)
    same(value[0], (X * (X + 1)).numpy())
    for scale in (1.0, 2.0):
        a, b = pull((torch.ones(3, dtype=torch.float64) * scale, torch.tensor(scale, dtype=torch.float64)))
        same(a, scale * ((X + 1).numpy() + 1))
        same(b, scale * X.numpy())
    _, push = func.linearize(lambda x: x.sin() * x, X)
    for tangent in (X, X * X):
        same(push(tangent), (X.cos() * X + X.sin()).numpy() * tangent.numpy())


def test_vmap_dimensions_and_trees() -> None:
    same(func.vmap(lambda a, b: a * b, in_dims=(0, 1), out_dims=1)(M, M), (M * M.T).T.numpy())
    made = func.vmap(lambda d, k: {"s": d["a"] + d["b"].sum() + k}, in_dims=({"a": 0, "b": None}, None))(
        {"a": X, "b": M}, 2.0)
    same(made["s"], X.numpy() + M.numpy().sum() + 2)
    outer = func.vmap(func.vmap(lambda a, b: a * b, in_dims=(None, 0)), in_dims=(0, None))
    same(outer(X, X), np.outer(X.numpy(), X.numpy()))
    same(func.vmap(wave, chunk_size=2)(M), func.vmap(wave)(M).numpy())
    assert torch.vmap is func.vmap


def test_recording_outside_goes_through_transforms() -> None:
    weight = torch.tensor([2.0, 3.0, 4.0], dtype=torch.float64, requires_grad=True)
    func.grad(lambda x: (x * x * weight).sum())(X).sum().backward()
    same(weight.grad, 2 * X.numpy())
    weight.grad = None
    func.vmap(lambda row: (row * weight).sum())(M).sum().backward()
    same(weight.grad, M.numpy().sum(0))
    batched, = torch.autograd.grad(weight**3, weight, torch.eye(3, dtype=torch.float64), is_grads_batched=True)
    same(batched, np.diag(3 * weight.detach().numpy() ** 2))


def test_no_grad_inside_and_outside() -> None:
    def partly(x: Any) -> Any:
        with torch.no_grad():
            total = x.sum()
        return (x * total).sum()

    same(func.grad(partly)(X), np.full(3, X.numpy().sum()))
    same(func.grad(lambda x: func.grad(partly)(x).sum())(X), np.zeros(3))
    with torch.no_grad():
        same(func.grad(wave)(X), WAVE_GRADIENT)
        same(func.vmap(func.grad(wave))(torch.stack([X, X])), np.stack([WAVE_GRADIENT] * 2))


def written(x: Any) -> Any:
    made = x.clone()
    made[0] = made[1] * 2
    made.mul_(x)
    made[1:].add_(1)
    return made


def test_writes_through_views_in_every_transform() -> None:
    jacobian = np.diag([0, 2 * 0.5, 2 * -0.7]) + np.array([[1.0, 0.2, 0], [0, 0, 0], [0, 0, 0]])
    for transform in (func.jacrev, func.jacfwd):
        same(transform(written)(X), jacobian)
    rows = torch.stack([X, X])
    same(func.vmap(written)(rows), np.stack([written(X).numpy()] * 2))
    same(func.vmap(func.jacrev(written))(rows), np.stack([jacobian] * 2))
    same(rows, np.stack([X.numpy()] * 2))
    func.vmap(lambda row: row.mul_(2))(rows)
    same(rows, np.stack([2 * X.numpy()] * 2))


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda: func.vmap(lambda x: x.sum().item())(M), RuntimeError, "vmap: It looks like you're calling .item()"),
    (lambda: func.vmap(lambda x: x if x.sum() > 0 else -x)(M), RuntimeError, "data-dependent control flow"),
    (lambda: func.vmap(lambda x: x.nonzero())(M), RuntimeError, "output dynamic shape. Attempted to vmap over "
                                                                "aten::nonzero"),
    (lambda: func.vmap(lambda x: x[x > 0])(M), RuntimeError, "Attempting to batch over indexing with a boolean mask"),
    (lambda: func.vmap(lambda x: X.clone().copy_(x))(M), RuntimeError, "vmap: inplace arithmetic"),
    (lambda: func.vmap(lambda x: x + torch.rand(3))(M), RuntimeError, "randomness error mode"),
    (lambda: func.vmap(lambda a, b: a)(M, 3), ValueError, "We cannot vmap over non-Tensor arguments"),
    (lambda: func.vmap(lambda a: a, in_dims=5)(M), ValueError, "expected in_dim to satisfy -2 <= in_dim < 2"),
    (lambda: func.vmap(lambda a: 3)(M), ValueError, "must only return Tensors, got type <class 'int'>"),
    (lambda: func.grad(lambda x: x)(X), RuntimeError, "Expected f(*args) to return a scalar Tensor, got tensor with 1 "
                                                      "dims"),
    (lambda: func.grad(lambda x: x.sum(), argnums=2)(X), RuntimeError, "Got argnum=2, but only 1 positional inputs"),
    (lambda: func.grad(lambda x: X.clone().requires_grad_().sum())(X), RuntimeError, "inside of a function being "
                                                                                     "transformed"),
    (lambda: func.grad(lambda x: CAPTURED.add_(x).sum())(X), RuntimeError, "that would mutate a captured Tensor"),
    (lambda: func.vjp(torch.sin, X)[1]((X, X)), RuntimeError, "cotangents: (*, *), primal output: *"),
    (lambda: func.jvp(torch.sin, (X,), (M,)), RuntimeError, "different size than that of the original Tensor"),
])
def test_errors_are_pytorchs(call: Any, kind: type, text: str) -> None:
    with pytest.raises(kind) as raised:
        call()
    assert text in str(raised.value)


CAPTURED = torch.zeros(3, dtype=torch.float64)


def test_a_tensor_that_escaped() -> None:
    kept: list[Any] = []
    func.vmap(lambda x: kept.append(x) or x)(M)
    with pytest.raises(RuntimeError, match="may have escaped from inside a function being vmapped"):
        kept[0] + 1
    func.grad(lambda x: kept.append(x) or x.sum())(X)
    same(kept[1] + 1, X.numpy() + 1)


def test_wrapped_tensors_show_their_level() -> None:
    shown: list[str] = []
    func.vmap(lambda x: shown.append(repr(x)) or x)(torch.ones(2, 1))
    func.grad(lambda x: shown.append(repr(x)) or x.sum())(torch.ones(1))
    assert shown == ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1.],\n            [1.]])\n)",
                     "GradTrackingTensor(lvl=1, value=\n    tensor([1.])\n)"]


# randomness ----------------------------------------------------------------------------------------------------------


def test_randomness_flags() -> None:
    def drawn(randomness: str, function: Any, given: Any = M) -> Any:
        torch.manual_seed(0)
        return func.vmap(function, randomness=randomness)(given)

    torch.manual_seed(0)
    expected = torch.rand(3, 2)
    same(drawn("different", lambda x: torch.rand(2)), expected.numpy())
    torch.manual_seed(0)
    one = torch.rand(2)
    same(drawn("same", lambda x: torch.rand(2)), np.stack([one.numpy()] * 3))
    assert len(np.unique(drawn("different", torch.randn_like).numpy())) == 9
    assert len(np.unique(drawn("same", torch.randn_like).numpy(), axis=0)) == 1
    dropped = drawn("same", lambda x: torch.nn.functional.dropout(x * 0 + 1, 0.5))
    assert len(np.unique(dropped.numpy(), axis=0)) == 1
    nested = drawn("same", lambda row: func.vmap(lambda x: x * 0 + torch.rand(()), randomness="different")(row))
    assert len(np.unique(nested.numpy(), axis=0)) == 1 and len(np.unique(nested.numpy())) == 3


# modules -------------------------------------------------------------------------------------------------------------


def network() -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2)).double()


def test_per_sample_gradients_of_a_network() -> None:
    net, inputs, target = network(), torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1])
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(given: dict, x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(func.functional_call(net, given, (x.unsqueeze(0),)), y.unsqueeze(0))

    made = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, inputs, target)
    for i in range(5):
        net.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs[i : i + 1]), target[i : i + 1]).backward()
        for name, parameter in net.named_parameters():
            same(made[name][i], parameter.grad.numpy())


def test_ensembles() -> None:
    nets, inputs = [network(), network(), network()], torch.randn(4, 3, dtype=torch.float64)
    with torch.no_grad():
        for i, net in enumerate(nets):
            net[0].weight.mul_(i + 1)
    parameters, buffers = func.stack_module_state(nets)
    assert parameters["0.weight"].requires_grad and parameters["0.weight"].is_leaf
    made = func.vmap(lambda p, b, x: func.functional_call(nets[0], (p, b), (x,)), in_dims=(0, 0, None))(
        parameters, buffers, inputs)
    for i, net in enumerate(nets):
        same(made[i], net(inputs).detach().numpy())


def test_meta_learning_step() -> None:
    """The gradient through one inner step of descent on a parabola a * (p - t)**2."""
    a, rate, start = 1.5, 0.1, torch.tensor(2.0, dtype=torch.float64)

    def inner_loss(p: Any, t: Any) -> Any:
        return a * (p - t) ** 2

    def outer_loss(p: Any, t: Any) -> Any:
        return inner_loss(p - rate * func.grad(inner_loss)(p, t), t)

    made = func.vmap(func.grad(outer_loss), in_dims=(None, 0))(start, X)
    same(made, 2 * a * (1 - 2 * a * rate) ** 2 * (2.0 - X.numpy()))


class _WithAttributes(torch.nn.Module):
    """A module with tensors that are neither parameters nor buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.offset, self.count, self.nothing = torch.tensor([0.0]), 3, None
        self.inner = torch.nn.Linear(1, 1)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        made = x * self.scale + self.offset + getattr(self, "extra", 0)
        self.offset = self.offset + 1
        return made


def test_functional_call_replaces_plain_tensor_attributes() -> None:
    net, x = _WithAttributes(), torch.ones(1)
    given = {"offset": torch.tensor([5.0]), "extra": torch.tensor([10.0]), "nothing": x}
    same(func.functional_call(net, given, x), [16])
    same(given["offset"], [6])  # what the call made of it
    same(net.offset, [0])
    assert not hasattr(net, "extra") and net.nothing is None
    with pytest.warns(FutureWarning, match="stateless.functional_call"):
        same(torch.nn.utils.stateless.functional_call(net, {"offset": torch.tensor([5.0])}, x), [6])


@pytest.mark.parametrize(("name", "value", "kind", "text"), [
    ("count", torch.ones(1), TypeError, "attribute `count`: 3 is not an instance of torch.Tensor"),
    ("inner", torch.ones(1), TypeError, "attribute `inner`: Linear(in_features=1, out_features=1, bias=True) is not an "
                                        "instance of torch.Tensor"),
    ("absent.weight", torch.ones(1), AttributeError, "_WithAttributes has no attribute `absent`"),
    ("inner.absent.weight", torch.ones(1), AttributeError, "Linear has no attribute `absent`"),
    ("offset.weight", torch.ones(1), TypeError, "submodule `offset`: tensor([0.]) is not an instance of "
                                                "torch.nn.Module"),
    ("inner.", torch.ones(1), KeyError, "tensor name can't be empty string"),
    ("offset", 3, TypeError, "3 is not an instance of torch.Tensor"),
    ("scale", None, TypeError, ""),
])
def test_functional_call_refuses_and_leaves_the_module(name, value, kind, text) -> None:
    net = _WithAttributes()
    before = net.inner.weight
    with pytest.raises(kind) as raised:
        func.functional_call(net, {"inner.weight": torch.zeros(1, 1), name: value}, torch.ones(1))
    assert text in raised.value.args[0]
    assert net.inner.weight is before and net.count == 3
    same(net.offset, [0])
    same(net.scale, [1])


def test_functional_call_ties_and_restores() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)
            self.two.weight = self.one.weight
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            self.calls = self.calls + 1
            return self.two(self.one(x))

    net, x = Tied(), torch.ones(1, 2)
    given = {"one.weight": torch.eye(2) * 2, "calls": torch.zeros(1)}
    same(func.functional_call(net, given, x), [[4, 4]])
    assert given["calls"].item() == 1 and net.calls.item() == 0 and net.two.weight is net.one.weight
    with pytest.raises(ValueError, match="which are tied"):
        func.functional_call(net, {"one.weight": torch.eye(2), "two.weight": torch.eye(2) * 2}, x)
    with pytest.raises(RuntimeError, match="Missing key"):
        func.functional_call(net, {"calls": torch.zeros(1)}, x, strict=True)


# custom Functions ----------------------------------------------------------------------------------------------------


class Scaled(torch.autograd.Function):
    """A product whose derivatives are said to be ten times what they are: what came through here shows."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Any, b: Any) -> Any:
        return a * b

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        return grad * b * 10, grad * a * 10

    @staticmethod
    def jvp(ctx: Any, of_a: Any, of_b: Any) -> Any:
        a, b = ctx.saved_tensors
        return (of_a * b + a * of_b) * 10


class Cubed(torch.autograd.Function):
    """Computed by NumPy, with a rule for vmap of its own."""

    @staticmethod
    def forward(x: Any) -> Any:
        return torch.from_numpy(np.asarray(x.detach().numpy() ** 3))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Any) -> Any:
        assert info.batch_size == x.shape[in_dims[0]]
        return Cubed.apply(x), in_dims[0]


def test_custom_functions_inside_transforms() -> None:
    ten = 10 * X.numpy()
    same(func.grad(lambda a: Scaled.apply(a, X).sum())(X), ten)
    same(func.jvp(lambda a: Scaled.apply(a, X), (X,), (torch.ones(3, dtype=torch.float64),))[1], ten)
    for transform in (func.jacrev, func.jacfwd):
        same(transform(lambda a: Scaled.apply(a, X))(X), np.diag(ten))
    same(func.vmap(Scaled.apply, in_dims=(0, None))(M, X), M.numpy() * X.numpy())
    same(func.grad(lambda a: func.vmap(Scaled.apply, in_dims=(None, 0))(a, M).sum())(X), 10 * M.numpy().sum(0))
    same(func.vmap(func.grad(lambda x: Cubed.apply(x).sum()))(M), 3 * M.numpy() ** 2)
    same(func.grad(lambda b: func.grad(lambda x: Cubed.apply(x).sum())(b).sum())(X), 6 * X.numpy())


def test_custom_functions_that_cannot_be_transformed() -> None:
    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    class Unmapped(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            pass

    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        func.grad(lambda x: Old.apply(x).sum())(X)
    with pytest.raises(RuntimeError, match="does not have vmap support"):
        func.vmap(Unmapped.apply)(X)


# trees ---------------------------------------------------------------------------------------------------------------


def test_trees_flatten_and_come_back() -> None:
    from collections import OrderedDict, defaultdict, deque, namedtuple

    from mindtorch_v2.utils import _pytree as tree

    Pair = namedtuple("Pair", "a b")
    given = {"b": (1, [2, None]), "a": Pair(3, 4), "c": OrderedDict(z=1), "d": deque([1, 2], maxlen=3),
             "e": defaultdict(list, {"q": 5}), "s": torch.Size([6])}
    leaves, spec = tree.tree_flatten(given)
    assert leaves == [1, 2, None, 3, 4, 1, 1, 2, 5, 6] and spec.num_leaves == 10
    assert tree.tree_unflatten(leaves, spec) == given
    doubled = tree.tree_map_only(int, lambda x: 2 * x, given)
    assert doubled["a"] == Pair(6, 8) and doubled["b"] == (2, [4, None]) and doubled["d"].maxlen == 3
    paths = [tree.keystr(path) for path, _ in tree.tree_flatten_with_path(given)[0]]
    assert paths[:5] == ["['b'][0]", "['b'][1][0]", "['b'][1][1]", "['a'].a", "['a'].b"]
    simple = tree.tree_structure((1, [2, {"k": 3}]))
    assert repr(simple) == "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*,\n    TreeSpec(dict, ['k'], [*])])])"
    assert tree.treespec_loads(tree.treespec_dumps(simple)) == simple
    assert tree.treespec_pprint(simple) == "(*, [*, {'k': *}])"
    with pytest.raises(ValueError, match="Node arity mismatch; expected 2, but got 1."):
        tree.tree_map(lambda a, b: a, (1, 2), (1,))
    maximum = torch.max(M, 0)
    assert type(tree.tree_map(lambda x: x, maximum)) is type(maximum)


def test_constants_are_part_of_a_trees_structure() -> None:
    from mindtorch_v2.utils import _pytree as tree

    class Named(str):
        """A class with equality of its own."""

    tree.register_constant(Named)
    leaves, spec = tree.tree_flatten([Named("a"), 2])
    assert leaves == [2] and tree.is_constant_class(Named) and not tree.is_constant_class(int)
    assert spec == tree.tree_structure([Named("a"), 3]) and spec != tree.tree_structure([Named("b"), 2])
    assert tree.tree_map(lambda x: x + 1, [Named("a"), 2]) == ["a", 3]
    with pytest.warns(UserWarning, match="is already registered as pytree node"):
        tree.register_constant(Named)
    with pytest.raises(TypeError, match="to have a non-default `__eq__` implementation"):
        tree.register_constant(type("Plain", (), {}))


def test_a_library_can_map_over_its_own_containers(monkeypatch):
    """Some replace the steps of vmap under PyTorch's private names."""
    from mindtorch_v2._functorch import vmap as steps

    class Box:
        def __init__(self, tensor):
            self.tensor = tensor

    def process(in_dims, args, func):
        return args[0].tensor.shape[0], [in_dims], list(args), None

    def create(dims, leaves, level, spec):
        return [Box(steps._add_batch_dim(leaves[0].tensor, dims[0], level))]

    def unwrap(outputs, out_dims, level, size, func):
        return Box(steps._remove_batch_dim(outputs.tensor, level, size, out_dims))

    for name, step in (("_process_batched_inputs", process), ("_create_batched_inputs", create),
                       ("_unwrap_batched", unwrap)):
        monkeypatch.setattr(steps, name, step)
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.vmap(lambda box: Box(box.tensor.sum()))(Box(x)).tensor, x.sum(1))


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians_of_complex_numbers_are_refused(name):
    numbers = torch.tensor([1 + 2j, 3 - 1j])
    jacobian = getattr(torch.func, name)
    with pytest.raises(RuntimeError, match=f"{name}: Expected all inputs to be real but received complex tensor at"):
        jacobian(lambda x: x.abs())(numbers)
    with pytest.raises(RuntimeError, match=f"{name}: Expected all outputs to be real but received complex tensor at"):
        jacobian(lambda x: x * 1j)(torch.ones(2))


def test_tangents_of_as_strided_scatter():
    x, part = torch.arange(6.0).view(2, 3), torch.ones(2, 2)
    _, tangent = torch.func.jvp(lambda a, b: torch.as_strided_scatter(a, b, (2, 2), (2, 1)), (x, part),
                                (x + 1, part * 5))
    assert tangent.tolist() == [[5.0, 5.0, 5.0], [5.0, 5.0, 6.0]]


@pytest.mark.parametrize("parameter, kind", [(None, torch.float16), (torch.ones(4), torch.float32)])
def test_statistics_of_layer_norm_have_the_same_types_inside_vmap(parameter, kind):
    x = torch.arange(24, dtype=torch.float16).reshape(2, 3, 4)
    made = torch.vmap(lambda x: torch.native_layer_norm(x, (4,), parameter, parameter, 1e-5))(x)
    assert [part.dtype for part in made] == [torch.float16, kind, kind]


@pytest.mark.parametrize("choose", [
    lambda x: x.max(0).values, lambda x: x.sort().values, lambda x: x.topk(2).values, lambda x: x.cummax(0).values,
    lambda x: x.median(0).values, lambda x: x.sum().max(0).values])
def test_gradients_of_chosen_elements_where_the_cotangent_is_the_same_for_all_samples(choose):
    x = torch.tensor([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]])

    def pulled_back(row):
        made, pull = torch.func.vjp(choose, row)
        return pull(torch.ones(made.shape))[0]

    assert torch.vmap(pulled_back)(x).tolist() == [pulled_back(row).tolist() for row in x]


def test_transforms_differentiate_in_inference_mode() -> None:
    x = torch.tensor([1.0, 2.0])

    def square(x: Any) -> Any:
        return (x * x).sum()

    with torch.inference_mode():
        assert torch.func.grad(square)(x).tolist() == [2.0, 4.0]
        assert torch.func.vjp(square, x)[1](torch.tensor(1.0))[0].tolist() == [2.0, 4.0]
        assert torch.func.jacrev(lambda x: x * x)(x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
        assert torch.func.vmap(torch.func.grad(lambda x: x * x))(x).tolist() == [2.0, 4.0]
        assert torch.is_inference_mode_enabled()
        with pytest.raises(ZeroDivisionError):
            torch.func.grad(lambda x: x.sum() / (1 // 0))(x)
        assert torch.is_inference_mode_enabled() and (x + 1).is_inference()
    assert not torch.is_inference_mode_enabled()


def test_functions_without_results_have_no_derivative() -> None:
    x = torch.ones(2)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        with pytest.raises(RuntimeError, match=r"Expected f to be a function that has non-empty output"):
            transform(lambda x: ())(x)
    with pytest.raises(RuntimeError, match=r"got output = \[None\]"):
        torch.func.vjp(lambda x: None, x)


@pytest.mark.parametrize(("function", "dims", "message"), [
    (lambda x: 3.14, {}, "must only return Tensors, got type <class 'float'> as the return"),
    (lambda x: [x], {}, "must only return Tensors, got type <class 'list'> as the return"),
    (lambda x: (x, None), {}, "got type <class 'NoneType'> for return 1"),
    (lambda x: x, {"out_dims": "first"}, "`out_dims` must be an int or a tuple of int"),
    (lambda x: x, {"out_dims": (0, 0)}, r"`out_dims` must have one dim per output \(got 1 outputs\)"),
    (lambda x: x, {"in_dims": -1}, "expected in_dim to satisfy 0 <= in_dim < 2"),
])
def test_the_first_form_of_vmap_has_narrower_rules(function, dims, message):
    from mindtorch_v2._vmap_internals import _vmap

    with pytest.raises(ValueError, match=message):
        _vmap(function, **dims)(torch.ones(3, 2))


def test_the_first_form_of_vmap_gives_what_torch_vmap_gives():
    from mindtorch_v2._vmap_internals import _vmap, vmap

    x = torch.arange(6.0).reshape(3, 2)
    assert _vmap(lambda x: (x * 2,))(x)[0].tolist() == (x * 2).tolist()
    first, second = _vmap(lambda x: (x, x.sum()), out_dims=(1, 0))(x)
    assert first.tolist() == x.t().tolist() and second.tolist() == x.sum(1).tolist()
    assert _vmap(lambda x: (x, None), allow_none_pass_through=True)(x)[1] is None
    with pytest.warns(FutureWarning, match="Please use `torch.vmap`"):
        assert vmap(torch.mul, in_dims=(0, None), out_dims=1)(x, torch.ones(2)).shape == (2, 3)
