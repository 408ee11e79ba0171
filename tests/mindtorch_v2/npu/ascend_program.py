"""A program as owners of Ascend chips write it for torch_npu; a test runs it as it is."""

import torch
import torch_npu
from torch import nn
from torch_npu.contrib import transfer_to_npu  # noqa: F401

assert torch.npu.is_available() and torch.cuda.is_available()
torch.npu.set_compile_mode(jit_compile=False)
torch.npu.config.allow_internal_format = False
torch.npu.matmul.allow_hf32 = torch.npu.conv.allow_hf32 = False
torch.npu.set_device("npu:0")
torch.cuda.set_device(0)
print("device", torch.npu.get_device_name(), torch.npu.current_device(), torch.npu.is_bf16_supported())


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.up = nn.Linear(16, 48), nn.Linear(16, 32)
        self.gain, self.out = nn.Parameter(torch.ones(16)), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(torch_npu.npu_rms_norm(x, self.gain, epsilon=1e-5)[0]).chunk(3, -1)
        seen = torch_npu.npu_fusion_attention(q, k, v, 2, "BSH", scale=8**-0.5, sparse_mode=2)[0]
        return self.out(torch_npu.npu_swiglu(self.up(x + seen))).mean(1)


torch.manual_seed(0)
model = Net().cuda()
assert next(model.parameters()).device.type == "npu" and next(model.parameters()).is_cuda
optimizer = torch_npu.optim.NpuFusedAdamW(model.parameters(), lr=1e-2)
scaler = torch.npu.amp.GradScaler()
x, target = torch.randn(8, 6, 16).to("cuda:0"), torch.arange(8).to("npu") % 4
losses = []
with torch_npu.profiler.profile(
    activities=[torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU],
    schedule=torch_npu.profiler.schedule(wait=0, warmup=1, active=2, repeat=1),
    experimental_config=torch_npu.profiler._ExperimentalConfig(
        profiler_level=torch_npu.profiler.ProfilerLevel.Level1, aic_metrics=torch_npu.profiler.AiCMetrics.MemoryUB
    ),
    on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("./result"),
) as prof:
    for _ in range(12):
        optimizer.zero_grad()
        with torch.cuda.amp.autocast(dtype=torch.float16), torch.autocast("cuda"):
            loss = nn.functional.cross_entropy(model(x), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        prof.step()
print("losses", losses[0] > losses[-1], all(n == n for n in losses))

heads = torch.randn(1, 2, 6, 8, device="npu")
angles = torch.arange(6.0, device="npu")[:, None] * torch.ones(8, device="npu")
turned = torch_npu.npu_rotary_mul(heads, angles.cos()[None, None], angles.sin()[None, None])
assert torch.allclose(turned.norm(dim=-1).cpu(), heads.norm(dim=-1).cpu(), atol=1e-4)
assert torch_npu.npu_format_cast(heads, 2) is heads

kept = torch.npu.ExternalStream(torch.npu.Stream().npu_stream)
with torch.npu.stream(kept):
    doubled = torch.ones(4, device="npu") * 2
kept.synchronize()
graph, static = torch.npu.NPUGraph(), torch.ones(4, device="npu")
with torch.npu.graph(graph):
    result = static * 3 + 1
static.fill_(2)
graph.replay()
torch.npu.synchronize()
print("graph", result.tolist(), doubled.tolist())
drawn = torch.randn(3, device="npu", generator=torch.Generator("npu").manual_seed(7))
assert drawn.tolist() == torch.randn(3, device="npu", generator=torch.Generator("npu").manual_seed(7)).tolist()
assert torch.npu.FloatTensor([1, 2]).device.type == "npu"
begun = torch.npu.mstx.range_start("eval")
torch.npu.mstx.range_end(begun)
torch.npu.set_per_process_memory_fraction(0.9)
assert "NPU memory of device 0" in torch.npu.memory_summary() and torch.npu.memory_snapshot()[0]["blocks"]
print("memory", torch.cuda.memory_allocated() > 0, torch.cuda.max_memory_allocated() > 0)
