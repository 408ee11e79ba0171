"""Factors of products that compiled functions keep packed: results as eager calls give them, however one is changed."""

import copy
import gc
import itertools
import random
import threading
import weakref

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2._dynamo as dynamo
from mindtorch_v2 import nn
from mindtorch_v2._backends.cpu import factors, onednn_kernels
from mindtorch_v2._backends.cpu.jit import machine
from mindtorch_v2._inductor import config
from mindtorch_v2.autograd import _unsafe_preserve_version_counter
from mindtorch_v2.nn import functional as F

WIDTH, ROWS = 160, 48  # more than a million multiplications
CALLS = 6  # after which everything that can be packed is
FORMS = {"calls": {}, "recorded": {"fullgraph": True}, "replayed": {"mode": "reduce-overhead"}}
with_onednn = pytest.mark.skipif(onednn_kernels() is None, reason="oneDNN packs these")


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    dynamo.reset()


@pytest.fixture(params=FORMS)
def compiled(request):
    """`torch.compile` in one of its forms."""
    return lambda fn: torch.compile(fn, **FORMS[request.param])


class Net(nn.Module):
    """A product with an activation, which plans compute at once, and one without."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def packed_bytes(*tensors):
    """The memory of what is packed of some tensors."""
    arrays = {id(tensor._array) for tensor in tensors}
    return sum(factor.nbytes for factor in factors.kept() if id(factor.array()) in arrays)


def same(compiled_fn, fn, *args):
    with torch.no_grad():
        torch.testing.assert_close(compiled_fn(*args), fn(*args), rtol=1e-5, atol=1e-5)


def settle(compiled_fn, fn, *args):
    """Calls until what can be packed is."""
    for _ in range(CALLS):
        same(compiled_fn, fn, *args)


# what is kept ---------------------------------------------------------------------------------------------------------


@with_onednn
def test_weights_are_packed_and_freed_with_their_arrays(compiled):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    run = compiled(net)
    settle(run, net, x)
    kept = packed_bytes(net.first.weight)
    assert kept >= net.first.weight.nbytes
    settle(run, net, x)
    assert packed_bytes(net.first.weight) == kept
    held = [factor for factor in factors.kept() if factor.array() is net.first.weight._array]
    assert len(held) == 1
    packed = [weakref.ref(form) for form in held[0].forms.values() if isinstance(form, np.ndarray)]
    assert packed
    del run, net, held
    dynamo.reset()
    gc.collect()
    assert not any(form() is not None for form in packed)
    assert not [factor for factor in factors.kept() if factor.array() is None]


@with_onednn
def test_other_sizes_share_what_is_packed(compiled):
    net = Net()
    run = compiled(net)
    for rows in (48, 64, 80):
        settle(run, net, torch.randn(rows, WIDTH))
    assert net.first.weight.nbytes <= packed_bytes(net.first.weight) < 3 * net.first.weight.nbytes


@with_onednn
def test_layouts_of_factors(compiled):
    x, bias = torch.randn(ROWS, WIDTH), torch.randn(WIDTH)
    lying, standing = torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, WIDTH).t()
    many, wide = torch.randn(3 * WIDTH, WIDTH), torch.randn(WIDTH, 2 * WIDTH)

    def program(x):
        q, k, v = many.chunk(3)  # as the weight of an attention has them
        x = torch.relu(x @ lying) + F.linear(x, standing) + torch.addmm(bias, x, lying) + x @ standing
        return F.linear(x, q) + F.linear(x, k).relu() + F.linear(x, v, bias) + x @ wide[:, :WIDTH] + x.mm(lying.t())

    run = compiled(program)
    for _ in range(3):
        settle(run, program, x)
        lying.mul_(0.5)
        many[WIDTH:].mul_(-0.5)
        standing.t()[3] = 1.0
        wide.zero_()
        same(run, program, x)


@pytest.mark.skipif(not machine.available(), reason="needs machine code")
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers(compiled, kind):
    layer, x = getattr(nn, kind)(32, 32), torch.randn(5, 4, 32)

    def program(x):
        return layer(x)[0] * 2 + 1

    run = compiled(program)
    for _ in range(3):
        settle(run, program, x)
        with torch.no_grad():
            for weight in layer.parameters():
                weight.mul_(0.5)
        same(run, program, x)


@with_onednn
def test_a_weight_that_changes_is_not_packed(compiled):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    run = compiled(net)
    for _ in range(CALLS):
        same(run, net, x)
        with torch.no_grad():
            net.first.weight.add_(0.01)
    assert packed_bytes(net.first.weight) == 0


@with_onednn
def test_packing_is_turned_off_by_the_setting_that_pytorch_has(compiled):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    with config.patch({"cpp.weight_prepack": False}):
        settle(compiled(net), net, x)
    assert packed_bytes(*net.parameters()) == 0


@with_onednn
def test_explaining_tells_the_memory():
    net, x = Net(), torch.randn(ROWS, WIDTH)
    run = torch.compile(net, fullgraph=True)
    settle(run, net, x)
    kept = packed_bytes(*net.parameters())
    with torch.no_grad():
        assert f"{kept / 1024:.3g} KB more hold factors of products, packed." in str(run.explain(x))


@with_onednn
def test_eager_calls_use_nothing_that_is_packed():
    net, x = Net(), torch.randn(ROWS, WIDTH)
    run = torch.compile(net)
    settle(run, net, x)
    seen = []
    before, factors.Factor.form = factors.Factor.form, lambda *given: seen.append(given)
    try:
        with torch.no_grad():
            net(x)
    finally:
        factors.Factor.form = before
    assert not seen


# ways to change a weight ----------------------------------------------------------------------------------------------


def by_step(net):
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.1)
    net(torch.randn(4, WIDTH)).square().sum().backward()
    optimiser.step()


def by_plain_step(net):
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
    net(torch.randn(4, WIDTH)).square().sum().backward()
    optimiser.step()


def in_place(net):
    with torch.no_grad():
        net.first.weight.add_(1)


def in_inference_mode(net):
    with torch.inference_mode():
        net.first.weight.add_(1)


def by_copy(net):
    with torch.no_grad():
        net.first.weight.copy_(torch.randn(WIDTH, WIDTH))


def by_state(net):
    net.load_state_dict(Net().state_dict())


def by_assigned_state(net):
    net.load_state_dict(Net().state_dict(), assign=True)


def by_data(net):
    net.first.weight.data.add_(1)


def by_data_of_data(net):
    net.first.weight.data.data.view(-1).data.mul_(2)


def by_new_data(net):
    net.first.weight.data = torch.randn(WIDTH, WIDTH)


def by_view(net):
    with torch.no_grad():
        net.first.weight[3:7].fill_(random.random())


def by_data_of_view(net):
    net.first.weight.view(-1)[:100].data.fill_(random.random())


def by_detached(net):
    net.first.weight.detach().t().mul_(-1)


def by_numpy(net):
    net.first.weight.detach().numpy()[5] = random.random()


def by_index(net):
    with torch.no_grad():
        net.first.weight[torch.arange(5)] = random.random()


def by_out(net):
    with torch.no_grad():
        torch.add(net.first.weight, 1, out=net.first.weight)


BYTES = itertools.cycle((61, 62, 63))  # four of which are numbers between 0.04 and 0.75


def by_storage(net):
    net.first.weight.untyped_storage().fill_(next(BYTES))


def by_set(net):
    with torch.no_grad():
        net.first.weight.set_(torch.randn(WIDTH, WIDTH))


def by_new_parameter(net):
    net.first.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))


def by_swapping(net):
    torch.utils.swap_tensors(net.first.weight, nn.Parameter(torch.randn(WIDTH, WIDTH)))


def by_uncounted_write(net):
    with torch.no_grad(), _unsafe_preserve_version_counter(net.first.weight):
        net.first.weight.add_(1)


def by_dlpack(net):
    np.from_dlpack(net.first.weight.detach())  # which NumPy may show read-only: the write comes from elsewhere
    torch.from_dlpack(net.first.weight.detach()).add_(1)


def by_pipeline(net):
    with torch.no_grad(), torch.pipeline():
        net.first.weight.add_(1)


def by_compiled_function(net):
    @torch.compile(fullgraph=True)
    def change():
        with torch.no_grad():
            net.first.weight.mul_(0.5).add_(1)

    change()


def by_requires_grad(net):
    net.first.weight.requires_grad_(False)
    net.first.weight.add_(1)


def by_double(net):
    net.double()
    net.float()
    in_place(net)


WAYS = [by_step, by_plain_step, in_place, in_inference_mode, by_copy, by_state, by_assigned_state, by_data,
        by_data_of_data, by_new_data, by_view, by_data_of_view, by_detached, by_numpy, by_index, by_out, by_storage,
        by_set, by_new_parameter, by_swapping, by_uncounted_write, by_dlpack, by_pipeline, by_compiled_function,
        by_requires_grad, by_double]  # fmt: skip


@pytest.mark.parametrize("change", WAYS, ids=lambda way: way.__name__)
def test_changes_are_seen(compiled, change):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    run = compiled(net)
    for _ in range(2):
        settle(run, net, x)
        before = net(x).detach().clone()
        change(net)
        assert not torch.equal(net(x), before)
        same(run, net, x)


HOLDERS = {
    "data": lambda net: net.first.weight.data,
    "view of data": lambda net: net.first.weight.data.view(-1)[7:],
    "NumPy": lambda net: net.first.weight.detach().numpy(),
    "storage": lambda net: net.first.weight.untyped_storage(),
    "tensor on the storage": lambda net: torch.empty(0).set_(net.first.weight.untyped_storage()),
    "parameter on the same memory": lambda net: nn.Parameter(net.first.weight.data, requires_grad=False),
    "DLPack": lambda net: torch.from_dlpack(net.first.weight.detach()),
}


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("when", ["before", "later"])
def test_writes_of_who_holds_the_memory_are_seen(compiled, name, when):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    run = compiled(net)
    holder = HOLDERS[name](net) if when == "before" else None
    settle(run, net, x)
    if when == "later":
        holder = HOLDERS[name](net)
    for value in (0, 1, 2):
        settle(run, net, x)
        if isinstance(holder, np.ndarray):
            holder[...] = value
        else:
            holder.fill_(value)
        same(run, net, x)


@with_onednn
def test_memory_that_nobody_holds_any_more_is_packed_again(compiled):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    with torch.no_grad():
        for weight in net.parameters():
            weight.data.normal_()  # as programs write it that set weights up
    run = compiled(net)
    settle(run, net, x)
    assert packed_bytes(net.first.weight)


def test_a_parameter_on_memory_of_others(compiled):
    outside = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    kept = torch.randn(WIDTH, WIDTH)
    net, x = Net(), torch.randn(ROWS, WIDTH)
    net.first.weight, net.second.weight = nn.Parameter(torch.from_numpy(outside)), nn.Parameter(kept)
    run = compiled(net)
    settle(run, net, x)
    outside[...] = 1
    same(run, net, x)
    settle(run, net, x)
    kept.zero_()  # counted by `kept`, not by the parameter
    same(run, net, x)


def test_parts_of_one_memory_do_not_hide_a_write_from_each_other(compiled):
    both, x = torch.randn(2 * WIDTH, WIDTH), torch.randn(ROWS, WIDTH)
    first, second = both[:WIDTH], both[WIDTH:]

    def upper(x):
        return torch.relu(F.linear(x, first)) * 2 - 1

    def lower(x):
        return torch.relu(F.linear(x, second)) * 2 - 1

    runs = [(compiled(fn), fn) for fn in (upper, lower)]
    for run, fn in runs:
        settle(run, fn, x)
    both.data.mul_(2)
    for run, fn in runs:
        settle(run, fn, x)


def test_shared_weights(compiled):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    net.second.weight = net.first.weight
    run = compiled(net)
    settle(run, net, x)
    in_place(net)
    same(run, net, x)


def test_copies_have_weights_of_their_own(compiled):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    run = compiled(net)
    settle(run, net, x)
    other = copy.deepcopy(net)
    again = compiled(other)
    settle(again, other, x)
    in_place(net)
    same(run, net, x)
    same(again, other, x)


def test_threads(compiled):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    run, failures = compiled(net), []

    def calls(expected):
        try:
            with torch.no_grad():
                for _ in range(CALLS):
                    torch.testing.assert_close(run(x), expected, rtol=1e-5, atol=1e-5)
        except BaseException as failure:
            failures.append(failure)

    for _ in range(3):
        with torch.no_grad():
            expected = net(x)
        workers = [threading.Thread(target=calls, args=(expected,)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        in_place(net)
    assert not failures


def test_training_after_predictions(compiled):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    other = copy.deepcopy(net)
    run = compiled(net)
    settle(run, net, x)
    for model, call in ((net, run), (other, other)):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(4):
            optimiser.zero_grad()
            call(x).square().mean().backward()
            optimiser.step()
    for mine, theirs in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
