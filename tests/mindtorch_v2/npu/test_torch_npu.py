"""torch.npu on the simulated machine."""

import gc
import json
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.npu.array import empty
from mindtorch_v2._backends.npu.seeds import seed_state


def test_devices(npu: Any) -> None:
    assert torch.npu.is_available() and torch.npu.device_count() == 2
    assert torch.npu.current_device() == 0 and not torch.npu.is_initialized()
    with torch.npu.device(1):
        assert torch.npu.current_device() == 1
        with torch.npu.device("npu:0"):
            assert torch.npu.current_device() == 0
    torch.npu.set_device(torch.device("npu:1"))
    assert torch.npu.current_device() == 1 and torch.npu.is_initialized()
    torch.npu.set_device(0)
    with pytest.raises(ValueError, match="Expected an npu device, but got: cpu"):
        torch.npu.set_device("cpu")


def test_names_and_properties(npu: Any) -> None:
    assert torch.npu.get_device_name() == "Ascend910B1"
    properties = torch.npu.get_device_properties(1)
    assert properties.total_memory == npu.memory_limit and "Ascend910B1" in repr(properties)


def test_memory(npu: Any) -> None:
    free, total = torch.npu.mem_get_info()
    a = empty((1000,), np.dtype(np.float32))
    assert torch.npu.memory_allocated() == torch.npu.max_memory_allocated() == 4096
    assert torch.npu.memory_reserved("npu:0") == 2 << 20 and torch.npu.memory_reserved(1) == 0
    assert torch.npu.mem_get_info()[0] < free <= total
    del a
    gc.collect()
    assert torch.npu.memory_allocated() == 0
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == 0 and torch.npu.max_memory_reserved() == 2 << 20
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == 0
    assert torch.npu.memory_stats()["segment.all.current"] == 0


def test_streams(npu: Any) -> None:
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        assert torch.npu.current_stream() == side
    assert torch.npu.current_stream() == torch.npu.default_stream()
    with torch.npu.stream(None):
        assert torch.npu.current_stream() == torch.npu.default_stream()
    torch.npu.Event().record()
    torch.npu.synchronize()


def test_seeds(npu: Any) -> None:
    torch.npu.manual_seed_all(7)
    state = torch.npu.get_rng_state()
    assert seed_state(0).taken(10) == (7, 0) and seed_state(0).taken(1) == (7, 12)
    torch.npu.set_rng_state(state)
    assert seed_state(0).taken(1) == (7, 0) and torch.npu.initial_seed() == 7
    torch.npu.manual_seed(-1)
    assert torch.npu.initial_seed() == (1 << 64) - 1 and seed_state(0).taken(1)[0] == -1
    torch.npu.set_rng_state_all(torch.npu.get_rng_state_all())


def test_the_profiler_has_cann_record_the_device(npu: Any, tmp_path: Any) -> None:
    from mindtorch_v2._torch_npu import profiler

    x = torch.ones(8, device="npu")
    config = profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level1)
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU], experimental_config=config,
        schedule=profiler.schedule(wait=1, warmup=0, active=2, repeat=2),
        on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "worker"),
    ) as prof:  # fmt: skip
        for _ in range(6):
            x.exp()
            prof.step()
    folders = sorted(tmp_path.iterdir())
    assert len(folders) == 2 and all(f.name.startswith("worker_") and f.name.endswith("_ascend_pt") for f in folders)
    for folder in folders:
        recorded = json.loads((folder / "PROF_000001.json").read_text())
        assert recorded == {"devices": [0], "metrics": 1, "kinds": 0x27, "launches": {"aclnnExp": 2}}
        trace = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
        assert any(event["name"] == "aten::exp" for event in trace["traceEvents"])


@pytest.mark.parametrize("failing", ["aclprofInit", "aclprofStart"])
def test_a_device_that_is_not_recorded_is_told(npu: Any, tmp_path: Any, failing: str) -> None:
    from mindtorch_v2._torch_npu import profiler

    npu.fail(failing)
    handler = profiler.tensorboard_trace_handler(str(tmp_path))
    told = pytest.warns(UserWarning, match=f"the device is not recorded: .*{failing}")
    with told, profiler.profile(on_trace_ready=handler):
        torch.ones(8, device="npu").exp()
    assert len(list(tmp_path.glob("*/ASCEND_PROFILER_OUTPUT/trace_view.json"))) == 1
    with profiler.profile() as prof:  # without a folder there is nothing to write
        torch.ones(8, device="npu").exp()
    assert prof.folder is None and npu.calls["aclprofFinalize"] == (failing == "aclprofStart")
