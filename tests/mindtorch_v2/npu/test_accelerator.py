"""torch.accelerator and torch.nn.parallel on the simulated NPU's devices."""

from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.nn import parallel

accelerator = torch.accelerator


def test_every_name_is_there() -> None:
    assert all(hasattr(accelerator, name) for name in accelerator.__all__)


def test_memory_is_that_of_torch_npu(npu: Any) -> None:
    before = accelerator.memory_allocated()
    x = torch.ones(1000, device="npu")
    assert accelerator.memory_allocated() - before == 4096
    assert accelerator.memory_allocated("npu:0") == accelerator.memory_allocated(0) == torch.npu.memory_allocated()
    assert accelerator.memory_reserved() == torch.npu.memory_reserved() > 0
    del x
    assert accelerator.max_memory_allocated() >= 4096 + before == accelerator.memory_allocated() + 4096
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == accelerator.memory_allocated()
    assert accelerator.max_memory_reserved() == accelerator.memory_reserved()
    told = accelerator.memory_stats()
    assert list(told) == sorted(told) and told["allocation.all.freed"] == 1
    accelerator.reset_accumulated_memory_stats()
    assert accelerator.memory_stats()["allocation.all.freed"] == 0
    assert accelerator.get_memory_info() == torch.npu.mem_get_info()
    accelerator.empty_host_cache()


def test_devices(npu: Any) -> None:
    with accelerator.device_index(1):
        assert accelerator.current_device_index() == 1
        with accelerator.device_index(None):
            assert accelerator.current_device_index() == 1
    assert accelerator.current_device_index() == 0
    with pytest.warns(FutureWarning, match="Use `current_device_index` instead"):
        assert accelerator.current_device_idx() == 0
    with pytest.raises(ValueError, match="cpu doesn't match the current accelerator npu"):
        accelerator.memory_allocated("cpu")
    with pytest.raises(ValueError, match="with a specified index or an integer, but got:npu"):
        accelerator.set_device_index("npu")
    found = accelerator.get_device_capability()["supported_dtypes"]
    assert torch.float32 in found and torch.bfloat16 in found and torch.float8_e8m0fnu not in found


def test_a_stream_brings_its_device(npu: Any) -> None:
    before, stream = accelerator.current_stream(), torch.npu.Stream(1)
    accelerator.set_stream(stream)
    assert accelerator.current_device_index() == 1 and accelerator.current_stream() == stream
    accelerator.set_stream(torch.npu.default_stream(1))
    accelerator.set_stream(before)
    assert accelerator.current_device_index() == 0
    with pytest.raises(TypeError, match="incompatible function arguments"):
        accelerator.set_stream(None)


def test_a_graph_records_inside_with(npu: Any) -> None:
    x, graph = torch.ones(4, device="npu"), accelerator.Graph()
    with torch.npu.Stream(), graph:
        y = x * 2 + 1
    x.fill_(3)
    graph.replay()
    assert y.tolist() == [7] * 4
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


# torch.nn.parallel ---------------------------------------------------------------------------------------------------


def test_tensors_are_scattered_and_gathered(npu: Any) -> None:
    x = torch.arange(6.0, requires_grad=True)
    parts = parallel.scatter({"x": x, "n": 3}, [0, 1])
    assert [p["x"].device for p in parts] == [torch.device("npu:0"), torch.device("npu:1")]
    assert [p["x"].tolist() for p in parts] == [[0, 1, 2], [3, 4, 5]] and parts[1]["n"] == 3
    joined = parallel.gather([{"y": p["x"] * (i + 1)} for i, p in enumerate(parts)], 1)["y"]
    assert joined.device == torch.device("npu:1") and joined.tolist() == [0, 1, 2, 6, 8, 10]
    joined.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 2, 2, 2]
    with pytest.warns(UserWarning, match="all input tensors were scalars"):
        assert parallel.gather([p["x"].sum() for p in parts], "cpu").tolist() == [3, 12]


def test_data_parallel_sums_gradients_on_the_first_device(npu: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4, momentum=1.0), torch.nn.Linear(4, 2))
    model[1].eval()
    x = torch.randn(5, 3)
    wanted = model(x)
    (wanted * wanted).sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    over_two = torch.nn.DataParallel(model.npu())
    assert over_two.device_ids == [0, 1]
    got = over_two(x)
    assert got.device == torch.device("npu:0")
    (got * got).sum().backward()
    torch.testing.assert_close(got.cpu(), wanted)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), gradient, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(parallel.data_parallel(model, x, [1, 0][::-1]).cpu(), wanted)
    with pytest.raises(RuntimeError, match=r"on device npu:1 \(device_ids\[0\]\) but found one of them on device: npu"):
        torch.nn.DataParallel(model, [1, 0])(x)


def test_what_a_replica_raises_is_raised(npu: Any) -> None:
    model = torch.nn.Linear(3, 2).npu()
    replicas = parallel.replicate(model, [0, 1], detach=True)
    assert not list(replicas[1].parameters()) and replicas[1].weight.device == torch.device("npu:1")
    assert replicas[0].weight.data_ptr() == model.weight.data_ptr()
    with pytest.raises(RuntimeError, match="Caught RuntimeError in replica 0 on device 0"):
        parallel.parallel_apply(replicas, parallel.scatter(torch.ones(2, 5), [0, 1]), devices=[0, 1])


def test_without_an_accelerator() -> None:
    x, model = torch.ones(2, 3), torch.nn.Linear(3, 2)
    assert torch.equal(torch.nn.DataParallel(model)(x), model(x))
    assert parallel.scatter([5, "a"], [0, 1]) == [[5, "a"], [5, "a"]] and parallel.gather([None, None], "cpu") is None
    assert parallel.scatter_gather.scatter_kwargs((1, 2), {"a": 3}, [0, 1]) == (((1, 2), (1, 2)), ({"a": 3}, {"a": 3}))
    with pytest.raises(AssertionError, match="Gather function not implemented for CPU tensors"):
        parallel.gather([x, x], "cpu")
    with pytest.raises(AssertionError, match="Broadcast function not implemented for CPU tensors"):
        parallel.replicate(model, [0, 0])
    with pytest.raises(AssertionError, match="number of modules 2 is not equal to the number of inputs 1"):
        parallel.parallel_apply([model, model], [x])
