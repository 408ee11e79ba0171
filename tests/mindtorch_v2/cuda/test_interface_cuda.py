"""torch.cuda and what else of the interface is about a device: places, streams, random numbers, sharing, switches."""

import copy
import io
import pickle
import sys
import time
from typing import Any

import numpy as np
import pytest
from device_cases import check_copies, check_old_types

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.utils.data import DataLoader, TensorDataset


def ones(*shape: int, **options: Any) -> torch.Tensor:
    return torch.ones(*shape, device="cuda", **options)


# devices -------------------------------------------------------------------------------------------------------------


def test_devices_and_their_properties() -> None:
    ones(1)
    assert torch.cuda.is_available() and torch.cuda.is_initialized()
    assert torch.cuda.device_count() >= 1 and torch.cuda.current_device() == 0
    properties = torch.cuda.get_device_properties(0)
    assert properties.name == torch.cuda.get_device_name() == torch.cuda.get_device_name("cuda:0") != ""
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability()
    assert properties.total_memory >= 1 << 30 and properties.multi_processor_count > 0 and properties.warp_size == 32
    assert repr(properties).startswith(f"_CudaDeviceProperties(name='{properties.name}', major={properties.major}")
    assert "sm_{}{}".format(*torch.cuda.get_device_capability()) in torch.cuda.get_arch_list()
    assert torch.cuda.is_bf16_supported() and torch.cuda.is_tf32_supported() == (properties.major >= 8)
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_properties(torch.cuda.device_count())
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        torch.cuda.get_device_name("cpu")


def test_the_current_device() -> None:
    torch.cuda.set_device(0)
    torch.cuda.set_device("cuda:0")
    torch.cuda.set_device(torch.device("cuda"))
    torch.cuda.set_device(-1)
    assert torch.cuda.current_device() == 0
    for where in (torch.cuda.device(0), torch.cuda.device(None), torch.cuda.device_of(ones(1)),
                  torch.cuda.device_of(torch.ones(1))):
        with where:
            assert torch.cuda.current_device() == 0
    beyond = torch.cuda.device_count()
    for call in (lambda: torch.cuda.set_device(beyond), lambda: torch.ones(1, device=f"cuda:{beyond}")):
        with pytest.raises(RuntimeError, match="CUDA error: invalid device ordinal"):
            call()


def test_the_accelerator() -> None:
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.accelerator.device_count() == torch.cuda.device_count()
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.set_device_index(0)
    torch.accelerator.synchronize()
    assert torch.accelerator.current_stream() == torch.cuda.current_stream()
    assert torch.get_device_module() is torch.get_device_module("cuda") is torch.cuda


# places --------------------------------------------------------------------------------------------------------------


def test_ways_to_a_device_and_back() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    for y in (x.cuda(), x.cuda(0), x.cuda("cuda:0", non_blocking=True), x.to("cuda"), x.to(torch.device("cuda", 0)),
              x.to(0), x.to("cuda", torch.float32, non_blocking=True), x.to(ones(1)), torch.tensor(x.tolist()).cuda(),
              torch.as_tensor(x, device="cuda"), torch.asarray(x.numpy(), device="cuda"), x.t().cuda().t()):
        assert y.device == torch.device("cuda:0") and y.is_cuda and y.get_device() == 0 and y.cpu().equal(x)
        assert y.to("cuda") is y.cuda() is y and y.to("cuda", copy=True) is not y
    y = x.cuda()
    assert y.type() == "torch.cuda.FloatTensor" and not y.cpu().is_cuda and x.get_device() == -1
    assert y.t().cpu().equal(x.t()) and y.t().stride() == y.t().cpu().stride() == (1, 3)
    assert y[:, 1:].to("cpu", torch.int64).tolist() == [[1, 2], [4, 5]] and y.tolist() == x.tolist()
    assert y.half().dtype is torch.float16 and y.to(torch.bfloat16).cpu().float().equal(x)
    check_copies(x, y)
    check_old_types(y)
    for like in (torch.zeros_like(y), y.new_ones(3), y.new_tensor([1]), torch.empty_like(y), y.new_zeros(2)):
        assert like.device == y.device
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).cuda()
    assert {t.device.type for t in network.state_dict().values()} == {"cuda"}
    assert {t.device.type for t in network.cpu().state_dict().values()} == {"cpu"}
    assert next(network.to("cuda", torch.float16).parameters()).dtype is torch.float16


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
                                   "float64", "complex64", "complex128", "uint16", "uint32", "uint64"])
def test_every_type_comes_back(dtype: str) -> None:
    x = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, dtype))
    y = x.cuda()
    assert y.dtype is x.dtype and y.cpu().equal(x) and y.permute(2, 0, 1).cpu().equal(x.permute(2, 0, 1))
    assert y[:, 1:, ::2].cpu().equal(x[:, 1:, ::2]) and torch.empty(0, 3, dtype=x.dtype).cuda().shape == (0, 3)


def test_the_default_device() -> None:
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda and torch.tensor([1]).is_cuda and torch.arange(3).is_cuda
        assert nn.Linear(2, 2).weight.is_cuda and torch.randn(2).is_cuda
        assert not torch.ones(2, device="cpu").is_cuda and not torch.from_numpy(np.ones(2)).is_cuda
    assert not torch.ones(2).is_cuda
    torch.set_default_device("cuda")
    try:
        assert torch.get_default_device() == torch.device("cuda", 0) and torch.zeros(1).is_cuda
    finally:
        torch.set_default_device(None)
    assert torch.get_default_device() == torch.device("cpu")


MIXED = {
    "addition": lambda x, y: x + y,
    "product": lambda x, y: x @ y,
    "linear": lambda x, y: nn.functional.linear(x, y),
    "cat": lambda x, y: torch.cat([x, y]),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "in place": lambda x, y: y.add_(x),
    "loss": lambda x, y: nn.functional.mse_loss(x, y),
}


@pytest.mark.parametrize("name", MIXED)
def test_devices_do_not_mix(name: str) -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but (found at least two "
                                           "devices|got .* is on)") as raised:
        MIXED[name](ones(2, 2), torch.ones(2, 2))
    assert "cuda:0" in str(raised.value) and "cpu" in str(raised.value)


def test_a_number_on_the_cpu_joins() -> None:
    x, factor = ones(3), torch.tensor(2.0, requires_grad=True)
    (x * factor).sum().backward()
    assert factor.grad.item() == 3 and factor.grad.device.type == "cpu"
    assert (x + torch.tensor(1, dtype=torch.float64)).dtype is torch.float32
    assert x[torch.tensor([0, 2])].tolist() == [1, 1] and x[torch.tensor([True, False, True])].shape == (2,)
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()"):
        x.numpy()
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        np.asarray(x)


def test_printing() -> None:
    x = torch.arange(4.0).reshape(2, 2).cuda()
    assert repr(x) == "tensor([[0., 1.],\n        [2., 3.]], device='cuda:0')"
    assert repr(x[0, 1].requires_grad_()) == "tensor(1., device='cuda:0', requires_grad=True)"
    assert repr(x.half()[0]) == "tensor([0., 1.], device='cuda:0', dtype=torch.float16)"
    assert f"{x[1, 1]:.2f}" == "3.00" and str(torch.empty(0, device="cuda")) == "tensor([], device='cuda:0')"
    assert repr(nn.Parameter(x[0])) == "Parameter containing:\ntensor([0., 1.], device='cuda:0', requires_grad=True)"


def test_copies_by_pickle_and_deepcopy() -> None:
    x = torch.arange(6.0, device="cuda").view(2, 3)
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert twin.device == x.device and twin.equal(x) and twin.stride() == x.stride()
    pair = [x, x[0]]
    one, other = copy.deepcopy(pair)
    one.zero_()
    assert other.tolist() == [0, 0, 0] and x.sum().item() == 15  # the copies share memory as the originals do
    file = io.BytesIO()
    torch.save(x.t(), file)
    file.seek(0)
    assert torch.load(file).is_cuda
    storage = x.untyped_storage()
    assert storage.is_cuda and storage.nbytes() == 24 and storage.cpu().nbytes() == 24
    assert storage.cpu().cuda().device == x.device and str(storage.device) == "cuda:0"


# pinned memory -------------------------------------------------------------------------------------------------------


def test_pinned_memory() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.pin_memory() is pinned and pinned.equal(x)
    assert torch.empty(3, pin_memory=True).is_pinned() and torch.zeros(3, pin_memory=True).is_pinned()
    moved = pinned.to("cuda", non_blocking=True)
    back = torch.empty(2, 3, pin_memory=True)
    back.copy_(moved * 2, non_blocking=True)
    torch.cuda.synchronize()
    assert back.equal(x * 2)
    with pytest.raises(RuntimeError, match="cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"):
        ones(1).pin_memory()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_pins_its_batches(workers: int) -> None:
    data = TensorDataset(torch.arange(24.0).reshape(12, 2), torch.arange(12))
    seen = []
    for x, y in DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers):
        assert x.is_pinned() and y.is_pinned()
        moved = x.to("cuda", non_blocking=True)
        seen += (moved.sum(1) + y.cuda(non_blocking=True)).tolist()
    assert seen == [5 * i + 1 for i in range(12)]


# streams, events, graphs ---------------------------------------------------------------------------------------------


def test_the_current_stream() -> None:
    default = torch.cuda.default_stream()
    assert torch.cuda.current_stream() == default and default.cuda_stream == 0 and default.device_index == 0
    side, other = torch.cuda.Stream(), torch.cuda.Stream(device="cuda:0", priority=-1)
    assert side != other and side != default and side.device == torch.device("cuda:0") and hash(side) != hash(other)
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == torch.cuda.current_stream("cuda:0") == side
        with torch.cuda.stream(other), torch.cuda.stream(None):
            assert torch.cuda.current_stream() == other
        assert torch.cuda.current_stream() == side
    torch.cuda.set_stream(side)
    assert torch.cuda.current_stream() == side
    torch.cuda.set_stream(default)
    assert torch.cuda.current_stream() == default and repr(side).startswith("<torch.cuda.Stream device=cuda:0 cuda_s")
    assert torch.cuda.ExternalStream(side.cuda_stream) == side
    low, high = torch.cuda.Stream.priority_range()
    assert low >= high


def test_streams_come_from_a_pool() -> None:
    """Every 33rd of a priority is the first one again; what is kept for streams does not grow for ever."""
    from mindtorch_v2._backends.cuda import blocks

    for priority in (0, -1):
        made = [torch.cuda.Stream(priority=priority) for _ in range(70)]
        assert [one.cuda_stream for one in made[32:64]] == [one.cuda_stream for one in made[:32]]
        assert len({one.cuda_stream for one in made}) == 32 and 0 not in {one.cuda_stream for one in made}
        assert made[0] == made[32] and hash(made[0]) == hash(made[32]) and made[0] != made[1]
        assert {one.priority for one in made} == {priority}
    low, high = ({torch.cuda.Stream(priority=p).cuda_stream for _ in range(32)} for p in (0, -1))
    assert low.isdisjoint(high)
    for _ in range(100):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = ones(3) @ ones(3)
    assert x.item() == 3
    known = len(blocks._streams)
    for _ in range(100):
        with torch.cuda.stream(torch.cuda.Stream()):
            ones(3)
    assert len(blocks._streams) == known
    assert [torch.cuda.Stream(priority=p).priority for p in (-9, -3, 2)] == [-3, -3, 0]
    assert torch.cuda.Stream.priority_range() == (0, -3)
    before = torch.cuda.Stream().cuda_stream
    assert torch.cuda.ExternalStream(before).cuda_stream == before  # and takes no turn
    after = [torch.cuda.Stream().cuda_stream for _ in range(32)]
    assert after[-1] == before and after.count(before) == 1


def test_streams_wait_for_each_other() -> None:
    side = torch.cuda.Stream()
    x = ones(1 << 22)
    for _ in range(100):
        x = x + 1
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
        for _ in range(100):
            y = y + 1
        done = side.record_event()
    torch.cuda.current_stream().wait_event(done)
    assert (y + x == 101 * 3 + 100).all().item()
    assert done.query() and torch.cuda.current_stream().query()
    x.record_stream(side)


def test_gradients_follow_the_streams_of_their_operations() -> None:
    x = ones(1 << 20, requires_grad=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = (x * 3).sum()
    torch.cuda.current_stream().wait_stream(side)
    y.backward()
    torch.cuda.synchronize()
    assert (x.grad == 3).all().item()


def test_events_tell_the_time() -> None:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="Both events must be recorded before calculating elapsed time"):
        start.elapsed_time(end)
    x = torch.randn(256, 256, device="cuda")
    x @ x
    torch.cuda.synchronize()
    begin = time.perf_counter()
    start.record()
    for _ in range(20):
        x @ x
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < (time.perf_counter() - begin) * 1e3 + 1
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.cuda.Event().elapsed_time(end)
    assert end.query() and repr(torch.cuda.Event()) == "<torch.cuda.Event uninitialized>"


def test_generic_streams_and_events() -> None:
    stream = torch.Stream(device="cuda")
    event = torch.Event("cuda")
    with torch.cuda.stream(stream):
        x = ones(3) * 2
        event.record(stream)
    event.synchronize()
    assert x.tolist() == [2, 2, 2]


def test_a_graph_is_captured_and_replayed() -> None:
    x, y = ones(1000), torch.zeros(1000, device="cuda")
    x * 2 + y  # compiled before
    graph = torch.cuda.CUDAGraph()
    assert not torch.cuda.is_current_stream_capturing()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        z = x * 2 + y
        y.copy_(z)
    assert not torch.cuda.is_current_stream_capturing()
    y.zero_()
    for _ in range(3):
        graph.replay()
    assert z.tolist() == y.tolist() == [6.0] * 1000
    x.fill_(5)
    graph.replay()
    assert y[0].item() == 16
    graph.reset()


def test_a_graph_draws_new_numbers_at_each_replay() -> None:
    torch.cuda.manual_seed(5)
    graph = torch.cuda.CUDAGraph()
    torch.rand(100, device="cuda")
    with torch.cuda.graph(graph):
        x = torch.rand(100, device="cuda")
    drawn = []
    for _ in range(3):
        graph.replay()
        drawn.append(x.tolist())
    assert drawn[0] != drawn[1] != drawn[2] and all(0 <= v < 1 for row in drawn for v in row)


def test_graphs_share_a_pool() -> None:
    pool = torch.cuda.graph_pool_handle()
    x = ones(100)
    x + 1, x * 3
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first, pool=pool):
        y = x + 1
    with torch.cuda.graph(second, pool=first.pool()):
        z = y * 3
    first.replay()
    second.replay()
    assert z[0].item() == 6


def test_capturing_needs_a_stream_of_its_own() -> None:
    with pytest.raises(RuntimeError, match="CUDA graphs must be captured on a non-default stream"):
        torch.cuda.CUDAGraph().capture_begin()


def test_ranges_for_the_profiler() -> None:
    assert torch.cuda.nvtx.range_push("outer") == 0 and torch.cuda.nvtx.range_push("inner") == 1
    assert torch.cuda.nvtx.range_pop() == 1 and torch.cuda.nvtx.range_pop() == 0
    torch.cuda.nvtx.mark("here")
    with torch.cuda.nvtx.range("step {}", 3):
        ones(1) + 1


# random numbers ------------------------------------------------------------------------------------------------------


def draws() -> list[float]:
    return [*torch.rand(3, device="cuda").tolist(), *torch.randn(3, device="cuda").tolist(),
            *torch.randint(100, (3,), device="cuda").tolist(), *torch.randperm(5, device="cuda").tolist(),
            *nn.functional.dropout(ones(8)).tolist()]


def test_seeds() -> None:
    torch.manual_seed(7)
    first = draws()
    assert draws() != first and torch.cuda.initial_seed() == 7
    for seeded in (torch.manual_seed, torch.cuda.manual_seed, torch.cuda.manual_seed_all):
        seeded(7)
        assert draws() == first
    torch.cuda.manual_seed(8)
    assert draws() != first
    torch.manual_seed(0)
    torch.rand(3)
    on_cpu = torch.rand(3)
    torch.manual_seed(0)
    torch.rand(3)
    draws()
    assert torch.rand(3).equal(on_cpu)  # the CPU's numbers are its own


def test_states() -> None:
    state = torch.cuda.get_rng_state()
    assert state.dtype is torch.uint8 and state.device.type == "cpu" and state.shape == (16,)
    first = draws()
    torch.cuda.set_rng_state(state)
    assert draws() == first
    torch.cuda.set_rng_state_all([state])
    assert draws() == first and len(torch.cuda.get_rng_state_all()) == torch.cuda.device_count()
    torch.cuda.set_rng_state(state)
    with torch.random.fork_rng(devices=[0]):
        draws()
    assert draws() == first
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        torch.cuda.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_generators() -> None:
    generator = torch.Generator("cuda").manual_seed(3)
    x = torch.rand(5, generator=generator, device="cuda")
    assert generator.device == torch.device("cuda:0") and generator.initial_seed() == 3
    y = torch.rand(5, generator=torch.Generator("cuda").manual_seed(3), device="cuda")
    assert x.equal(y) and not torch.rand(5, generator=generator, device="cuda").equal(x)
    state = generator.get_state()
    x = torch.randn(4, generator=generator, device="cuda")
    generator.set_state(state)
    assert torch.randn(4, generator=generator, device="cuda").equal(x)
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.rand(2, generator=torch.Generator(), device="cuda")
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.rand(2, generator=generator)


def test_distributions_have_their_moments() -> None:
    torch.cuda.manual_seed(1)
    count = 1 << 18
    uniform, normal = torch.rand(count, device="cuda"), torch.randn(count, device="cuda")
    assert uniform.min().item() >= 0 and uniform.max().item() < 1
    assert abs(uniform.mean().item() - 0.5) < 5e-3 and abs(uniform.var().item() - 1 / 12) < 2e-3
    assert abs(normal.mean().item()) < 1e-2 and abs(normal.std().item() - 1) < 1e-2
    kept = (nn.functional.dropout(torch.ones(count, device="cuda"), 0.25) != 0).float().mean().item()
    assert abs(kept - 0.75) < 5e-3
    assert abs(torch.full((count,), 0.3, device="cuda").bernoulli().mean().item() - 0.3) < 5e-3
    counts = torch.randint(10, (count,), device="cuda").bincount(minlength=10)
    assert (counts.float() / count - 0.1).abs().max().item() < 5e-3


# other libraries -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "complex64", "bool"])
def test_cupy_shares_memory(dtype: str) -> None:
    import cupy

    x = torch.arange(12, device="cuda").reshape(3, 4).to(getattr(torch, dtype))
    array = cupy.from_dlpack(x.detach())
    assert array.data.ptr == x.data_ptr() and array.shape == (3, 4) and str(array.dtype) == dtype
    array[0, 0] = 1
    assert x[0, 0].item() == 1
    turned = cupy.from_dlpack(x.t())
    assert turned.strides == tuple(s * x.element_size() for s in x.t().stride())
    back = torch.from_dlpack(array)
    assert back.data_ptr() == x.data_ptr() and back.dtype is x.dtype and back.device == x.device
    back[2, 3] = 0
    assert x[2, 3].item() == 0
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr() == torch.utils.dlpack.from_dlpack(array).data_ptr()
    assert x.__dlpack_device__() == (2, 0)
    made = torch.as_tensor(cupy.arange(3, dtype=cupy.float32), device="cuda")
    assert made.tolist() == [0, 1, 2] and made.is_cuda
    if dtype == "float32":
        with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
            cupy.from_dlpack(x.clone().requires_grad_())


def test_memory_outlives_whoever_made_it() -> None:
    import cupy

    array = cupy.from_dlpack(ones(1000) * 3)
    others = [torch.zeros(1000, device="cuda") for _ in range(4)]
    assert float(array.sum()) == 3000 and len(others) == 4
    tensor = torch.from_dlpack(cupy.full(1000, 2.0, dtype=cupy.float32))
    others += [torch.zeros(1000, device="cuda") for _ in range(4)]
    assert tensor.sum().item() == 2000


def test_the_array_interface() -> None:
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    told = x.__cuda_array_interface__
    assert told["shape"] == (2, 3) and told["typestr"] == "<f4" and told["data"] == (x.data_ptr(), False)
    assert told["version"] >= 2 and told["strides"] in (None, (12, 4))
    assert x.t().__cuda_array_interface__["strides"] == (4, 12)
    with pytest.raises(AttributeError, match="Can't get __cuda_array_interface__ on non-CUDA tensor"):
        torch.ones(1).__cuda_array_interface__
    with pytest.raises(RuntimeError, match="requires grad"):
        ones(1, requires_grad=True).__cuda_array_interface__


def test_pytorch_shares_memory() -> None:
    real = pytest.importorskip("torch", reason="needs the real PyTorch beside the library")
    if not real.cuda.is_available():
        pytest.skip("the real PyTorch has no CUDA device")
    theirs = real.arange(6.0, device="cuda").reshape(2, 3)
    ours = torch.from_dlpack(theirs)
    assert ours.data_ptr() == theirs.data_ptr() and ours.tolist() == theirs.tolist() and ours.is_cuda
    ours.mul_(2)
    torch.cuda.synchronize()
    assert theirs.sum().item() == 30
    again = real.from_dlpack(ours.t())
    assert again.data_ptr() == ours.data_ptr() and again.stride() == (1, 3)
    assert real.as_tensor(ours, device="cuda").data_ptr() == ours.data_ptr()  # __cuda_array_interface__
    half = torch.ones(4, dtype=torch.bfloat16, device="cuda")
    assert real.from_dlpack(half).dtype is real.bfloat16


# switches ------------------------------------------------------------------------------------------------------------


def test_switches() -> None:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, torch.get_float32_matmul_precision()
    try:
        matmul.allow_tf32 = True
        assert torch.get_float32_matmul_precision() in ("high", "medium")
        matmul.allow_tf32 = False
        assert torch.get_float32_matmul_precision() == "highest"
        torch.set_float32_matmul_precision("high")
        assert matmul.allow_tf32
    finally:
        matmul.allow_tf32 = before[0]
        torch.set_float32_matmul_precision(before[1])
    assert torch.backends.cuda.is_built() and isinstance(cudnn.is_available(), bool)
    assert cudnn.version() is None or cudnn.version() >= 8000
    with cudnn.flags(enabled=False, deterministic=True):
        assert not cudnn.enabled and cudnn.deterministic
        x, w = torch.randn(2, 3, 8, 8, device="cuda"), torch.randn(4, 3, 3, 3, device="cuda")
        plain = nn.functional.conv2d(x, w, padding=1)
    assert cudnn.enabled
    with cudnn.flags(enabled=True, allow_tf32=False):
        np.testing.assert_allclose(nn.functional.conv2d(x, w, padding=1).cpu().numpy(), plain.cpu().numpy(), atol=1e-4)


def test_tf32_rounds_the_factors() -> None:
    """1 + 2**-12 is 1 in TF32: allowed, a product loses it; not allowed, it does not."""
    if not torch.cuda.is_tf32_supported():
        pytest.skip("the device has no TF32")
    matmul = torch.backends.cuda.matmul
    a, b = torch.full((64, 64), 1 + 2.0**-12, device="cuda"), torch.eye(64, device="cuda")
    before = matmul.allow_tf32
    try:
        matmul.allow_tf32 = False
        assert (a @ b)[0, 0].item() == 1 + 2.0**-12
        matmul.allow_tf32 = True
        assert abs((a @ b)[0, 0].item() - 1) <= 2.0**-11
    finally:
        matmul.allow_tf32 = before


def test_ways_of_attention() -> None:
    from mindtorch_v2.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(2, 2, 16, 8, device="cuda") for _ in range(3))
    wanted = nn.functional.scaled_dot_product_attention(q, k, v)
    with sdpa_kernel(SDPBackend.MATH):
        got = nn.functional.scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(got.cpu().numpy(), wanted.cpu().numpy(), atol=1e-5)
    assert torch.backends.cuda.flash_sdp_enabled() and torch.backends.cuda.math_sdp_enabled()


def test_cupy_is_not_imported_before_it_is_needed() -> None:
    import subprocess

    text = "import sys, mindtorch_v2; mindtorch_v2.ones(2) + 1; assert 'cupy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", text], env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0
