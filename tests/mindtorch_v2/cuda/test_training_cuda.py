"""Whole trainings on a CUDA device: the CPU's losses, half precision, checkpoints that move, captured steps."""

import copy
import io
from typing import Any

import numpy as np
import pytest
from device_cases import loader_of_saved
from device_models import CASES, ONE_OF_EACH, Case, loss_of, step_of, trained

import mindtorch_v2 as torch
from mindtorch_v2 import nn

STEPS = 50
# A change of all weights by 2e-7, the rounding of float32, changes no loss of these 50 steps by more than 3e-6 of
# itself. So 1e-4 leaves room for the other order in which a device sums, and for nothing that is wrong.
CLOSE = 1e-4
every_model = pytest.mark.parametrize("name", ONE_OF_EACH)


@pytest.fixture(autouse=True)
def float32_products() -> Any:
    """Products of float32 without TF32, the comparison's condition."""
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, False
    yield
    matmul.allow_tf32 = before


def determined(key: str, value: torch.Tensor) -> np.ndarray:
    """The part of a parameter that training determines.

    Softmax does not feel the bias of the keys: its gradient is rounding, which Adam makes steps of full size of.
    """
    if not key.endswith("attend.bias"):
        return value.numpy()
    queries, _, values = value.chunk(3)
    return torch.cat([queries, values]).numpy()


@pytest.mark.parametrize("name", CASES)
def test_fifty_steps_have_the_losses_of_the_cpu(name: str) -> None:
    wanted, on_cpu = trained(CASES[name], "cpu", STEPS)
    got, on_gpu = trained(CASES[name], "cuda", STEPS)
    np.testing.assert_allclose(got, wanted, rtol=CLOSE, atol=0, err_msg=name)
    assert got[-1] < 0.8 * got[0]
    state = on_cpu.state_dict()
    for key, value in on_gpu.state_dict().items():
        assert value.device.type == "cuda"
        np.testing.assert_allclose(
            determined(key, value.cpu()), determined(key, state[key]), rtol=1e-2, atol=1e-3, err_msg=key
        )


FORMS = [dict(fused=True), dict(foreach=True), dict(foreach=False)]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_optimizers_of_every_form_step_as_on_the_cpu(optimizer: str, form: dict[str, bool]) -> None:
    make, options = getattr(torch.optim, optimizer), {"weight_decay": 0.01}
    if optimizer == "RMSprop" and "fused" in form:
        with pytest.raises(TypeError, match="fused"):
            make([nn.Parameter(torch.ones(1))], **form)
        return
    options |= {"momentum": 0.9} if optimizer in ("SGD", "RMSprop") else {"amsgrad": True}
    case = Case(**{**vars(CASES["mlp, sgd"]), "optimizer": lambda p: make(p, lr=1e-2, **options)})
    wanted, _ = trained(case, "cpu", 8)
    got, _ = trained(Case(**{**vars(case), "optimizer": lambda p: make(p, lr=1e-2, **options, **form)}), "cuda", 8)
    np.testing.assert_allclose(got, wanted, rtol=CLOSE)


# half precision ------------------------------------------------------------------------------------------------------


HALF_STEPS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1), "adam, amsgrad": lambda p: torch.optim.Adam(p, 0.1, amsgrad=True),
    "adam, decay": lambda p: torch.optim.Adam(p, 0.1, weight_decay=0.1, maximize=True),
    "sgd": lambda p: torch.optim.SGD(p, 0.1), "adagrad": lambda p: torch.optim.Adagrad(p, 0.1, weight_decay=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", HALF_STEPS)
def test_steps_of_half_and_mixed_parameters_round_as_single_operators(name: str) -> None:
    kinds = [torch.bfloat16, torch.float16, torch.float32, torch.bfloat16]
    made = []
    for where in ("cpu", "cuda"):
        torch.manual_seed(0)
        parameters = [nn.Parameter(torch.randn(5, 7).to(where, kind)) for kind in kinds]
        optimizer = HALF_STEPS[name](parameters)
        for _ in range(3):
            for parameter in parameters:
                parameter.grad = torch.randn(5, 7).to(where, parameter.dtype)
            optimizer.step()
        made.append([p.detach().cpu().float() for p in parameters])
    for kind, ours, wanted in zip(kinds, made[1], made[0], strict=True):
        spacing = torch.finfo(kind).eps
        torch.testing.assert_close(ours, wanted, rtol=2 * spacing, atol=2 * spacing)
        if kind.itemsize == 2 and name.startswith("ada"):  # nearly all are the same; a CPU rounds `alpha` too
            assert (ours != wanted).sum() <= 3


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", HALF_STEPS)
def test_steps_of_parameters_of_any_size_that_begin_anywhere(name: str, kind: Any) -> None:
    """Parts of one array, as flat optimizers have them: some sixty to a launch, of blocks that share long ones."""
    sizes = [8, 1, 7, 70_001, 4096, 9, 0, *[5] * 60, 600_000]
    torch.manual_seed(0)
    values, *grads = (torch.randn(sum(sizes)) for _ in range(3))
    # Far from the decay's share: where the two cancel, the sign of a step is that of a rounding.
    values, *grads = (each.to(kind) for each in (values, *(grad + 2 * grad.sign() for grad in grads)))
    made = []
    for where in ("cpu", "cuda"):
        parameters = [nn.Parameter(part) for part in values.to(where, copy=True).split(sizes)]
        optimizer = HALF_STEPS[name](parameters)
        for grad in grads:
            for parameter, part in zip(parameters, grad.to(where).split(sizes), strict=True):
                parameter.grad = part
            optimizer.step()
        assert any(p.data_ptr() % 16 for p in parameters)
        made.append(torch.cat([p.detach().cpu() for p in parameters]).double())
    spacing = torch.finfo(kind).eps
    torch.testing.assert_close(made[1], made[0], rtol=4 * spacing, atol=4 * spacing)


@every_model
def test_bfloat16_autocast_lowers_the_loss(name: str) -> None:
    plain, _ = trained(CASES[name], "cuda", STEPS)
    got, network = trained(CASES[name], "cuda", STEPS, precision=torch.bfloat16)
    assert np.isfinite(got).all() and got[-1] < 0.8 * got[0]
    np.testing.assert_allclose(got[0], plain[0], rtol=3e-2)  # the first loss, before roundings add up
    assert got != plain  # it did compute in bfloat16
    assert {p.dtype for p in network.parameters()} == {p.grad.dtype for p in network.parameters()} == {torch.float32}


@every_model
def test_float16_with_a_scaler_lowers_the_loss(name: str) -> None:
    case = CASES[name]
    network, inputs, targets = case.on("cuda")
    optimizer = case.optimizer(network.parameters())
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**24, growth_interval=5)
    losses, scales = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = loss_of(network, inputs, targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    # It overflowed and was halved, and grew again.
    assert min(scales) < 2.0**24 and any(after > before for before, after in zip(scales, scales[1:]))
    assert np.isfinite(losses).all() and losses[-1] < 0.9 * losses[0]


def test_what_autocast_takes_in_which_type() -> None:
    x, w = torch.randn(4, 8, device="cuda"), torch.randn(3, 8, device="cuda", requires_grad=True)
    assert torch.get_autocast_dtype("cuda") is torch.float16
    with torch.autocast("cuda", torch.bfloat16):
        y = nn.functional.linear(x, w)
        assert y.dtype is torch.bfloat16 and y.softmax(-1).dtype is torch.float32
        assert (x + x).dtype is torch.float32 and (y + x[:, :3]).dtype is torch.float32
        with torch.autocast("cuda", enabled=False):
            assert nn.functional.linear(x, w).dtype is torch.float32
        loss = nn.functional.mse_loss(y, torch.zeros(4, 3, device="cuda"))
    loss.backward()
    assert loss.dtype is torch.float32 and w.grad.dtype is torch.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_whole_model_in_half_precision_trains(dtype: torch.dtype) -> None:
    network, inputs, targets = CASES["mlp, sgd"].on("cuda")
    network, inputs = network.to(dtype), inputs.to(dtype)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    losses = [step_of(network, inputs, targets, optimizer).item() for _ in range(STEPS)]
    assert losses[-1] < 0.5 * losses[0] and next(network.parameters()).dtype is dtype


# checkpoints ---------------------------------------------------------------------------------------------------------


def saved(network: Any, optimizer: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict()}, file)
    return file


def continued(case: Case, file: io.BytesIO, device: str, where: Any, steps: int) -> list[float]:
    """The losses of further steps on a device, from a checkpoint loaded to `where`."""
    file.seek(0)
    state = torch.load(file, map_location=where)
    assert {t.device.type for t in state["network"].values()} == {torch.device(where).type}
    network, inputs, targets = case.on(device)
    network.load_state_dict(state["network"])
    optimizer = case.optimizer(network.parameters())
    optimizer.load_state_dict(state["optimizer"])
    kept = [v for s in optimizer.state.values() for k, v in s.items() if isinstance(v, torch.Tensor) and k != "step"]
    assert kept and {t.device.type for t in kept} == {device}
    return [step_of(network, inputs, targets, optimizer, case.clip).item() for _ in range(steps)]


@pytest.mark.parametrize("start, other", [("cuda", "cpu"), ("cpu", "cuda")])
@every_model
def test_a_checkpoint_moves_and_training_goes_on(name: str, start: str, other: str) -> None:
    case = CASES[name]
    network, inputs, targets = case.on(start)
    optimizer = case.optimizer(network.parameters())
    for _ in range(5):
        step_of(network, inputs, targets, optimizer, case.clip)
    file = saved(network, optimizer)
    wanted = [step_of(network, inputs, targets, optimizer, case.clip).item() for _ in range(10)]
    for device, where in ((other, other), (other, start), (start, other), (start, start)):
        got = continued(case, file, device, where, 10)
        np.testing.assert_allclose(got, wanted, rtol=CLOSE, err_msg=f"on {device}, loaded to {where}")


def test_where_a_file_is_loaded() -> None:
    loaded = loader_of_saved("cuda")
    found = loaded()
    assert [str(t.device) for t in found.values()] == ["cuda:0", "cuda:0", "cpu"]
    assert found["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["turned"].untyped_storage().data_ptr() == found["base"].untyped_storage().data_ptr()
    for where in ("cuda", "cuda:0", torch.device("cuda"), lambda storage, place: storage.cuda()):
        assert {str(t.device) for t in loaded(where).values()} == {"cuda:0"}
    for where in ("cpu", {"cuda:0": "cpu"}, lambda storage, place: storage):
        assert {t.device.type for t in loaded(where).values()} == {"cpu"}
    network, _, _ = CASES["mlp, sgd"].on("cuda")
    twin = copy.deepcopy(network)
    for p, q in zip(network.parameters(), twin.parameters(), strict=True):
        assert q.device == p.device and q.equal(p) and q.data_ptr() != p.data_ptr()


def test_checkpointed_parts_have_the_gradients_of_the_whole() -> None:
    from mindtorch_v2.utils.checkpoint import checkpoint

    network, inputs, targets = CASES["gpt, adamw"].on("cuda")
    loss_of(network, inputs, targets).backward()
    wanted = {name: p.grad.clone() for name, p in network.named_parameters()}
    network.zero_grad()
    for layer in network.layers:
        layer.forward = lambda x, own=layer.forward: checkpoint(own, x, use_reentrant=False)
    loss_of(network, inputs, targets).backward()
    for name, p in network.named_parameters():
        np.testing.assert_allclose(p.grad.cpu().numpy(), wanted[name].cpu().numpy(), rtol=1e-4, atol=1e-6, err_msg=name)
    x = torch.ones(64, device="cuda", requires_grad=True)
    y = checkpoint(lambda x: nn.functional.dropout(x, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()  # the same numbers were drawn again


# captured steps ------------------------------------------------------------------------------------------------------

CAPTURED = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, capturable=True),
}


@pytest.mark.parametrize("optimizer", CAPTURED)
@every_model
def test_replayed_steps_have_the_losses_of_eager_ones(name: str, optimizer: str) -> None:
    """After three eager steps on a side stream, 20 replays of one captured step go on as eager steps would."""

    def started() -> tuple[Any, ...]:
        network, inputs, targets = CASES[name].on("cuda")
        made = CAPTURED[optimizer](network.parameters())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step_of(network, inputs, targets, made)
        torch.cuda.current_stream().wait_stream(side)
        return network, inputs, targets, made

    network, inputs, targets, made = started()
    wanted = [step_of(network, inputs, targets, made).item() for _ in range(20)]
    network, inputs, targets, made = started()
    made.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step_of(network, inputs, targets, made)
    got = []
    for _ in range(20):
        graph.replay()
        got.append(loss.item())
    np.testing.assert_allclose(got, wanted, rtol=CLOSE)
