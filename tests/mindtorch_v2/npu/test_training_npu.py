"""Whole programs on the simulated NPU: training, copies, memory, checkpoints, faults."""

import copy
import math
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from device_cases import check_copies, check_old_types
from device_models import ResNet

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
import mindtorch_v2.utils.checkpoint
import mindtorch_v2.utils.data
from mindtorch_v2 import nn
from mindtorch_v2._backends.npu.errors import NpuError

Parameters = dict[str, torch.Tensor]
COPIES = ("aclrtMemcpy", "aclrtMemcpyAsync")


def made(seed: int, **shapes: tuple[int, ...]) -> Parameters:
    rng = np.random.default_rng(seed)
    return {name: torch.from_numpy((rng.standard_normal(shape) * 0.3).astype(np.float32))
            for name, shape in shapes.items()}  # fmt: skip


def on(parameters: Parameters, device: str) -> Parameters:
    return {name: p.to(device).detach().clone().requires_grad_() for name, p in parameters.items()}


def mlp(p: Parameters, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    hidden = F.relu(F.linear(x, p["w1"], p["b1"]))
    return F.cross_entropy(F.linear(hidden, p["w2"], p["b2"]), target)


MLP = made(0, w1=(16, 8), b1=(16,), w2=(4, 16), b2=(4,))


def mlp_data() -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(1)
    return (torch.from_numpy(rng.standard_normal((12, 8)).astype(np.float32)),
            torch.from_numpy(rng.integers(0, 4, 12)))  # fmt: skip


WIDTH, HEADS, WORDS = 16, 2, 11
BLOCK = made(2, words=(WORDS, WIDTH), places=(6, WIDTH), qkv=(3 * WIDTH, WIDTH), mix=(WIDTH, WIDTH),
             scale1=(WIDTH,), shift1=(WIDTH,), scale2=(WIDTH,), shift2=(WIDTH,), up=(4 * WIDTH, WIDTH),
             up_bias=(4 * WIDTH,), down=(WIDTH, 4 * WIDTH), head=(WORDS, WIDTH))  # fmt: skip


def block(p: Parameters, words: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A transformer block over words, which learns to name the next one."""
    batch, length = words.shape
    x = F.embedding(words, p["words"]) + p["places"]
    normed = F.layer_norm(x, (WIDTH,), p["scale1"], p["shift1"])
    q, k, v = F.linear(normed, p["qkv"]).reshape(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
    later = torch.ones(length, length, device=x.device, dtype=torch.bool).triu(1)
    weights = F.softmax(scores.masked_fill(later, -math.inf), dim=-1)
    x = x + F.linear((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH), p["mix"])
    normed = F.layer_norm(x, (WIDTH,), p["scale2"], p["shift2"])
    x = x + F.linear(F.gelu(F.linear(normed, p["up"], p["up_bias"])), p["down"])
    return F.cross_entropy(F.linear(x, p["head"]).reshape(-1, WORDS), target.reshape(-1))


def block_data() -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(3)
    words = torch.from_numpy(rng.integers(0, WORDS, (4, 6)))
    return words, torch.from_numpy(rng.integers(0, WORDS, (4, 6)))


Model = Callable[[Parameters, torch.Tensor, torch.Tensor], torch.Tensor]
MODELS = {"mlp": (mlp, MLP, mlp_data), "transformer block": (block, BLOCK, block_data)}
OPTIMIZERS: dict[str, Callable] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}


def trained(name: str, optimizer: str, device: str, steps: int) -> tuple[list[float], Parameters]:
    model, start, data = MODELS[name]
    parameters = on(start, device)
    inputs = [t.to(device) for t in data()]
    optimizer_ = OPTIMIZERS[optimizer](list(parameters.values()))
    losses = []
    for _ in range(steps):
        optimizer_.zero_grad()
        loss = model(parameters, *inputs)
        loss.backward()
        optimizer_.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses], parameters


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_training_ends_with_the_losses_of_the_cpu(npu: Any, name: str, optimizer: str) -> None:
    wanted, on_cpu = trained(name, optimizer, "cpu", 20)
    got, on_npu = trained(name, optimizer, "npu", 20)
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)
    assert got[-1] < got[0] * 0.8
    for key, parameter in on_npu.items():
        np.testing.assert_allclose(parameter.detach().cpu().numpy(), on_cpu[key].detach().numpy(), rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_copies_nothing_between_host_and_device(npu: Any, name: str, optimizer: str) -> None:
    model, start, data = MODELS[name]
    parameters = on(start, "npu")
    inputs = [t.to("npu") for t in data()]
    optimizer_ = OPTIMIZERS[optimizer](list(parameters.values()))
    for step in range(3):
        before = {call: npu.calls[call] for call in COPIES}
        optimizer_.zero_grad()
        loss = model(parameters, *inputs)
        loss.backward()
        optimizer_.step()
        copied = {call: npu.calls[call] - before[call] for call in COPIES}
        assert not any(copied.values()), f"step {step}: {copied}"
    before_item = npu.calls["aclrtMemcpy"]
    loss.item()
    assert npu.calls["aclrtMemcpy"] == before_item + 1


FUSED: dict[str, Callable] = {
    "adamw": lambda p, **o: torch.optim.AdamW(p, lr=0.01, amsgrad=True, **o),
    "adam": lambda p, **o: torch.optim.Adam(p, lr=0.01, weight_decay=0.1, maximize=True, **o),
    "sgd": lambda p, **o: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3, **o),
    "adagrad": lambda p, **o: torch.optim.Adagrad(p, lr=0.1, weight_decay=1e-3, **o),
}


@pytest.mark.parametrize("flags", [dict(fused=True), dict(foreach=True), dict(foreach=False)], ids=str)
@pytest.mark.parametrize("name", FUSED)
def test_steps_of_every_kind_are_those_of_the_cpu(npu: Any, name: str, flags: dict[str, bool]) -> None:
    def stepped(device: str, **options: Any) -> list[Any]:
        parameters = list(on(MLP, device).values())
        optimizer = FUSED[name](parameters, **options)
        inputs = [t.to(device) for t in mlp_data()]
        for _ in range(4):
            optimizer.zero_grad()
            mlp(dict(zip(MLP, parameters, strict=True)), *inputs).backward()
            optimizer.step()
        return [p.detach().cpu().numpy() for p in parameters]

    for got, wanted in zip(stepped("npu", **flags), stepped("cpu"), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)
    if flags.get("fused") and name.startswith("adam"):
        assert npu.calls["aclnnApplyAdamWV2"] == 4  # one for all parameters in each of the four steps


def test_nothing_is_left_behind_by_200_steps(npu: Any) -> None:
    parameters = on(MLP, "npu")
    inputs = [t.to("npu") for t in mlp_data()]
    optimizer = OPTIMIZERS["adamw"](list(parameters.values()))
    seen = []
    for step in range(201):
        optimizer.zero_grad()
        loss = mlp(parameters, *inputs)
        loss.backward()
        optimizer.step()
        del loss
        if step % 50 == 0 and step:
            torch.npu.synchronize()
            seen.append((npu.counts(), torch.npu.memory_allocated(), torch.npu.memory_reserved()))
    assert seen[1:] == seen[:-1]


def test_a_checkpoint_moves_between_devices(npu: Any) -> None:
    _, parameters = trained("mlp", "sgd", "npu", 3)
    state = {name: p.detach().cpu() for name, p in parameters.items()}
    assert all(t.device.type == "cpu" for t in state.values())
    inputs = mlp_data()
    loss = mlp(state, *inputs)
    back = {name: t.to("npu") for name, t in state.items()}
    np.testing.assert_allclose(mlp(back, *[t.to("npu") for t in inputs]).item(), loss.item(), rtol=1e-5)
    copied = copy.deepcopy(back["w1"])
    assert copied.device.type == "npu" and copied.data_ptr() != back["w1"].data_ptr()
    fresh = torch.zeros(16, 8)
    fresh.copy_(parameters["w1"].detach())
    assert fresh.equal(state["w1"])


# modules -------------------------------------------------------------------------------------------------------------


class Tagger(nn.Module):
    """Words through a bidirectional LSTM and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 6)
        self.lstm = nn.LSTM(6, 4, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(8, 5, batch_first=True)
        self.head = nn.Linear(5, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.lstm(self.words(words))[0])[0][:, -1])


class UpAndDown(nn.Module):
    """Pooling, transposed convolution, resampling and the norms of groups and layers."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 4, 2, 2), nn.GroupNorm(2, 4), nn.GELU(), nn.AvgPool2d(2))
        self.up = nn.Sequential(nn.ConvTranspose2d(4, 4, 2, 2), nn.InstanceNorm2d(4, affine=True), nn.SiLU(),
                                nn.Upsample(scale_factor=2, mode="bilinear"), nn.AdaptiveMaxPool2d(3))
        self.head = nn.Sequential(nn.Flatten(), nn.LayerNorm(36), nn.Linear(36, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.up(self.down(x)))


class Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(9, 5, mode="mean")

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.bags(words)


NETWORKS = {"resnet": (ResNet, (6, 3, 8, 8)), "lstm": (Tagger, None), "up and down": (UpAndDown, (6, 3, 8, 8)),
            "embedding bag": (Bags, None)}  # fmt: skip


def network_and_data(name: str, device: str) -> tuple[Any, torch.Tensor, torch.Tensor]:
    make, shape = NETWORKS[name]
    torch.manual_seed(3)
    network = make().to(device)
    inputs = torch.randn(shape) if shape else torch.randint(0, 9, (6, 4))
    return network, inputs.to(device), (torch.arange(6) % 5).to(device)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_train_with_the_losses_of_the_cpu(npu: Any, name: str) -> None:
    losses: dict[str, list[float]] = {}
    networks = {}
    for device in ("cpu", "npu"):
        network, inputs, target = network_and_data(name, device)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        losses[device] = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = F.cross_entropy(network(inputs), target)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            losses[device].append(loss.item())
        networks[device] = network
    np.testing.assert_allclose(losses["npu"], losses["cpu"], rtol=2e-3, atol=2e-4)
    assert losses["npu"][-1] < losses["npu"][0]
    on_cpu = networks["cpu"].state_dict()
    for key, got in networks["npu"].state_dict().items():
        wanted = on_cpu[key]
        np.testing.assert_allclose(got.cpu().numpy(), wanted.numpy(), rtol=2e-2, atol=2e-3, err_msg=key)


def test_mixed_precision_with_a_scaler(npu: Any) -> None:
    network, inputs, target = network_and_data("resnet", "npu")
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("npu", init_scale=2.0**20, growth_interval=2)
    scales, losses = [], []
    for _ in range(14):
        optimizer.zero_grad()
        with torch.autocast("npu"):
            loss = F.cross_entropy(network(inputs), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        losses.append(loss.item())
    assert min(scales) < 2.0**20 and scales[-1] > min(scales)  # it overflowed, was halved, and grew again
    assert losses[-1] < losses[0]


def test_checkpointed_parts_have_the_gradients_of_the_whole(npu: Any) -> None:
    network, inputs, target = network_and_data("up and down", "npu")
    F.cross_entropy(network(inputs), target).backward()
    wanted = [p.grad.cpu().numpy() for p in network.parameters()]
    network.zero_grad()
    hidden = torch.utils.checkpoint.checkpoint(network.down, inputs, use_reentrant=False)
    hidden = torch.utils.checkpoint.checkpoint(lambda x: F.dropout(network.up(x), 0.0), hidden, use_reentrant=False)
    F.cross_entropy(network.head(hidden), target).backward()
    for parameter, grad in zip(network.parameters(), wanted, strict=True):
        np.testing.assert_allclose(parameter.grad.cpu().numpy(), grad, rtol=1e-5, atol=1e-6)


def test_checkpointing_draws_the_same_numbers_again(npu: Any) -> None:
    x = torch.ones(64, device="npu", requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(lambda x: F.dropout(x, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


def test_files_move_between_devices(npu: Any, tmp_path: Any) -> None:
    network, inputs, target = network_and_data("resnet", "npu")
    optimizer = torch.optim.AdamW(network.parameters())
    F.cross_entropy(network(inputs), target).backward()
    optimizer.step()
    path = tmp_path / "state.pt"
    torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict()}, path)
    for where, device in (("cpu", "cpu"), ("npu", "npu"), ("npu:1", "npu"), (None, "npu"), ({"npu:0": "cpu"}, "cpu")):
        state = torch.load(path, map_location=where)
        assert {t.device.type for t in state["network"].values()} == {device}
        for key, value in network.state_dict().items():
            assert value.cpu().equal(state["network"][key].cpu()), key
    other, _, _ = network_and_data("resnet", "npu")
    other.load_state_dict(torch.load(path, map_location="cpu")["network"])
    restored = torch.optim.AdamW(other.parameters())
    restored.load_state_dict(torch.load(path, map_location="cpu")["optimizer"])
    assert {s["exp_avg"].device.type for s in restored.state.values()} == {"npu"}
    network.eval(), other.eval()
    assert network(inputs).cpu().allclose(other(inputs).cpu())


def test_a_loader_pins_what_goes_to_the_device(npu: Any) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    for x, y in torch.utils.data.DataLoader(data, batch_size=3, pin_memory=True):
        assert x.is_pinned() and y.is_pinned()
        moved = x.to("npu", non_blocking=True)
        assert (moved.sum(1).cpu() == x.sum(1)).all()


# programs in small ---------------------------------------------------------------------------------------------------


def test_copies_between_devices(npu: Any) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    y = x.to("npu")
    assert y.device == torch.device("npu:0") and y.cpu().equal(x) and y.to("npu") is y
    assert y.t().cpu().equal(x.t()) and y.t().to(torch.int64).cpu().equal(x.t().long())
    assert y[:, 1:].cpu().equal(x[:, 1:]) and y.tolist() == x.tolist()
    other = y.to("npu:1")
    assert other.device.index == 1 and other.cpu().equal(x)
    check_copies(x, y)
    check_old_types(y)
    with pytest.raises(RuntimeError, match="same device"):
        y + x
    with pytest.raises(RuntimeError, match="same device"):
        y + other
    factor = torch.tensor(2.0, requires_grad=True)  # a CPU tensor without dimensions is as good as a number
    (y * factor).sum().backward()
    assert factor.grad.item() == 12 and factor.grad.device.type == "cpu"
    with pytest.raises(TypeError, match="can't convert npu:0 device type tensor to numpy"):
        y.numpy()
    assert torch.tensor([1, 2], device="npu").dtype is torch.int64
    assert torch.as_tensor(x, device="npu").device.type == "npu"
    assert "device='npu:0'" in repr(y)


@pytest.mark.usefixtures("without_gpu")
def test_pinned_memory(npu: Any) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.pin_memory() is pinned and pinned.equal(x)
    before = npu.calls["aclrtMemcpyAsync"], npu.calls["aclrtSynchronizeStream"]
    y = pinned.to("npu", non_blocking=True)
    assert (npu.calls["aclrtMemcpyAsync"], npu.calls["aclrtSynchronizeStream"]) == (before[0] + 1, before[1])
    assert (y * 2).cpu().equal(x * 2)
    target = torch.empty(2, 3).pin_memory()
    target.copy_(y, non_blocking=True)
    torch.npu.synchronize()
    assert target.equal(x)


def test_promotion(npu: Any) -> None:
    whole, number = torch.arange(3, device="npu"), torch.tensor(1.5, device="npu")
    for other in (2, 2.5, True, number, torch.ones(3, dtype=torch.float16, device="npu")):
        plain = other.cpu() if isinstance(other, torch.Tensor) else other
        for name in ("add", "mul", "div", "eq", "pow", "true_divide", "maximum"):
            if name == "maximum" and not isinstance(other, torch.Tensor):
                continue
            got, wanted = getattr(whole, name)(other), getattr(whole.cpu(), name)(plain)
            assert got.dtype is wanted.dtype and got.cpu().equal(wanted), (name, other)
    assert (1 / (whole + 1)).dtype is torch.float32 and (2 - whole).tolist() == [2, 1, 0]
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        whole.add_(1.5)
    half = torch.ones(2, dtype=torch.bfloat16, device="npu")
    assert (half * 2.5).dtype is torch.bfloat16 and half.add_(0.5).tolist() == [1.5, 1.5]


def test_writes_views_and_their_history(npu: Any) -> None:
    def program(device: str) -> list[Any]:
        base = torch.arange(12.0, device=device).reshape(3, 4).requires_grad_()
        x = base * 2
        x[1].mul_(3)
        x[:, 2] += 1
        x.t()[0].neg_()
        x[0, 1:3] = x[2, :2]
        x.masked_fill_(x > 20, 0)
        x.index_put_((torch.tensor([0, 2], device=device),), torch.ones(4, device=device), accumulate=True)
        (x * x).sum().backward()
        return [x.detach().cpu(), base.grad.cpu(), x._version]

    got, wanted = program("npu"), program("cpu")
    assert got[0].allclose(wanted[0]) and got[1].allclose(wanted[1]) and got[2] == wanted[2]


def test_results_into_given_tensors(npu: Any) -> None:
    x = torch.arange(4.0, device="npu")
    out = torch.empty(4, device="npu")
    assert torch.add(x, 1, out=out) is out and out.tolist() == [1, 2, 3, 4]
    wide = torch.zeros(4, dtype=torch.float64, device="npu")
    assert torch.mul(x, x, out=wide).tolist() == [0, 1, 4, 9]
    values, indices = torch.empty(0, device="npu"), torch.empty(0, dtype=torch.int64, device="npu")
    torch.sort(x, descending=True, out=(values, indices))
    assert values.tolist() == [3, 2, 1, 0] and indices.tolist() == [3, 2, 1, 0]


def test_random_numbers_follow_the_seed(npu: Any) -> None:
    def drawn() -> list[Any]:
        torch.manual_seed(5)
        return [torch.rand(4, device="npu").tolist(), torch.randn(3, device="npu").tolist(),
                torch.randint(0, 9, (5,), device="npu").tolist(), torch.randperm(6, device="npu").tolist(),
                F.dropout(torch.ones(8, device="npu"), 0.5).tolist()]  # fmt: skip

    first = drawn()
    assert first == drawn() and sorted(first[3]) == list(range(6)) and set(first[4]) <= {0.0, 2.0}
    torch.manual_seed(6)
    assert torch.rand(4, device="npu").tolist() != first[0]


def test_backward_adds_into_grad(npu: Any) -> None:
    x = torch.ones(3, device="npu", requires_grad=True)
    for _ in range(3):
        (x * x).sum().backward()
    assert x.grad.tolist() == [6, 6, 6] and x.grad.device.type == "npu"
    y = x * 1
    y.retain_grad()
    (y + y.expand(2, 3).sum(0)).sum().backward()
    assert y.grad.tolist() == [3, 3, 3]
    (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert second.tolist() == [6, 6, 6]


# faults --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["aclrtMalloc", "aclnnMmGetWorkspaceSize", "aclnnMm", "aclCreateTensor",
                                  "aclnnReluGetWorkspaceSize", "aclnnReduceSum", "aclnnThresholdBackward",
                                  "aclrtSynchronizeStream", "aclrtMemcpy"])  # fmt: skip
def test_a_failing_call_is_named_and_the_next_step_works(npu: Any, call: str) -> None:
    def step(rows: int = 4 << 10) -> float:
        w = torch.ones(3, 2, device="npu", requires_grad=True)
        x = torch.ones(rows, 3, device="npu")
        (x @ w).relu().sum().backward()
        return w.grad.sum().item()

    wanted = step()
    torch.npu.empty_cache()
    npu.fail(call, 507899, times=1)
    with pytest.raises((NpuError, torch.npu.OutOfMemoryError)) as raised:
        step(5 << 10)  # of another geometry: nothing is kept for it
    assert call in str(raised.value)
    del raised
    assert step() == wanted


def test_out_of_memory(npu: Any) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="NPU 0 has a total capacity"):
        torch.empty(1 << 40, device="npu")
    assert torch.ones(2, device="npu").tolist() == [1, 1]


# cost ----------------------------------------------------------------------------------------------------------------


def test_the_host_cost_of_an_addition(npu: Any) -> None:
    """`a + b` with the simulator told to do nothing, against the CPU's; the figure in docs/npu.md is made with this."""
    a = torch.ones(2, 2)
    x = a.to("npu")
    for _ in range(5):
        x + x
    with npu.muted():
        before = npu.library.simulator_calls()
        x + x
        calls = npu.library.simulator_calls() - before
        launch = min(timeit.repeat(lambda: x + x, number=2000, repeat=7)) / 2000
    plain = min(timeit.repeat(lambda: a + a, number=2000, repeat=7)) / 2000
    print(f"\na + b: {launch * 1e6:.2f} us on the NPU without its work, {plain * 1e6:.2f} us on the CPU")
    assert calls <= 2  # the launch, and the address of the result where that is another one


def test_autocast_takes_half_precision_for_products(npu: Any) -> None:
    x, w = torch.randn(4, 8, device="npu"), torch.randn(3, 8, device="npu", requires_grad=True)
    with torch.npu.amp.autocast():
        y = F.linear(x, w)
        assert y.dtype is torch.float16
        assert y.softmax(-1).dtype is torch.float32
        loss = F.mse_loss(y, torch.zeros(4, 3, device="npu"))
    assert loss.dtype is torch.float32
    loss.backward()
    assert w.grad.dtype is torch.float32


def test_gradients_lie_as_their_leaves(npu: Any) -> None:
    """A copy is made in the leaf's strides where they are dense, and counts as memory that was copied to."""
    for strides in ((4, 1), (1, 3)):
        grads = []
        for device in ("cpu", "npu"):
            x = torch.empty_strided((3, 4), strides, device=device).fill_(2).requires_grad_()
            x.sum().backward()
            grads.append((x.grad.stride(), x.grad._version, x.grad.tolist()))
        assert grads[0] == grads[1] and grads[0][:2] == (strides, 1)
