"""torch.utils: timing, counting of operations, TensorBoard's files, weak references, reports; torch.cpu, monitor."""

import builtins
import datetime
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn import functional as F
from mindtorch_v2.utils import benchmark, swap_tensors
from mindtorch_v2.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula
from mindtorch_v2.utils.weak import TensorWeakRef, WeakIdKeyDictionary

# benchmark -----------------------------------------------------------------------------------------------------------


def _measured(times: list[float], number: int = 1, **task: Any) -> benchmark.Measurement:
    return benchmark.Measurement(number, times, benchmark.TaskSpec(**{"stmt": "f(x)", "setup": "pass", **task}))


@pytest.mark.parametrize(("measurement", "text"), [
    (_measured([0.5]), "f(x)\n  500.00 ms\n  1 measurement, 1 runs , 1 thread"),
    (_measured([1e-4, 2e-4, 3e-4, 1.5e-4], 10, label="L", sub_label="s", description="d", env="e"),
     "L: s\nd\n  Median: 17.50 us\n  IQR:    8.75 us (13.75 to 22.50)\n  4 measurements, 10 runs per measurement, 1 "
     "thread\n  WARNING: Interquartile range is 50.0% of the median measurement.\n           This suggests significant "
     "environmental influence."),
    (_measured([0.5e-3], 1000, stmt="f(x)\ng(x)", setup="import x\nx=1", num_threads=4),
     "stmt:\n  f(x)\n  g(x)\n\nsetup:\n  import x\n  x=1\n\n  500.00 ns\n  1 measurement, 1000 runs , 4 threads"),
])
def test_measurements_print_as_in_pytorch(measurement: benchmark.Measurement, text: str) -> None:
    first, _, rest = repr(measurement).partition("\n")
    assert first.startswith("<mindtorch_v2.utils.benchmark.utils.common.Measurement object at 0x")
    assert rest == text


def _table() -> benchmark.Compare:
    return benchmark.Compare([
        _measured([seconds * threads * (1.5 if row == "mul" else 1)] * 4, label="ops", sub_label=row,
                  description=column, num_threads=threads)
        for threads in (1, 2) for row in ("mul", "add")
        for column, seconds in (("small", 1.1e-6), ("large", 2.346e-4))])


def test_tables_print_as_in_pytorch() -> None:
    table = _table()
    assert str(table) == ("[----------- ops -----------]\n           |  small  |  large\n"
                          "1 threads: ------------------\n"
                          "      mul  |   1.7   |  351.9\n      add  |   1.1   |  234.6\n"
                          "2 threads: ------------------\n"
                          "      mul  |   3.3   |  703.8\n      add  |   2.2   |  469.2\n"
                          "\nTimes are in microseconds (us).\n")
    table.trim_significant_figures()
    assert "      mul  |    2    |   352 \n      add  |    1    |   235 \n" in str(table)
    table.colorize()
    assert "|  \033[92m\033[1m  1  \033[0m\033[0m  |  \033[92m\033[1m 235 \033[0m\033[0m\n" in str(table)


def test_tables_mark_measurements_that_vary() -> None:
    table = benchmark.Compare([_measured([1e-3] * 4, sub_label="s0", description="d"),
                               _measured([1e-3, 2e-3, 3e-3, 5e-3], sub_label="s1", description="d")])
    table.highlight_warnings()
    assert "      s1  |  2.5 (! 70%)\n" in str(table)
    assert str(table).endswith("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n")


def test_a_timer_measures() -> None:
    timer = benchmark.Timer("x + 1", setup="x = torch.ones(2)", num_threads=1)
    assert (timer.timeit(10).number_per_run, len(timer.timeit(10).times)) == (10, 1)
    measured = timer.blocked_autorange(min_run_time=0.01)
    assert sum(measured.raw_times) >= 0.01
    assert 1e-8 < measured.median < 1e-2
    assert timer.adaptive_autorange(min_run_time=0.001, max_run_time=0.05).median > 0
    with pytest.raises(ValueError, match="Invalid language `rust`."):
        benchmark.Timer("x", language="rust")
    with pytest.raises(NotImplementedError, match="See `Timer.blocked_autorange.`"):
        timer.repeat()


# flop_counter --------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.body(torch.relu(self.conv(x)).mean((2, 3))))


def test_operations_of_forward_and_backward_by_module(capsys: pytest.CaptureFixture[str]) -> None:
    net, x = Net(), torch.randn(2, 3, 8, 8)
    with FlopCounterMode() as counter:
        net(x).sum().backward()
    assert counter.get_total_flops() == 112896
    assert capsys.readouterr().out == """Module                           FLOP    % Total
---------------------------  --------  ---------
Net                          112.896K    100.00%
- aten.convolution            55.296K     48.98%
- aten.addmm                   0.768K      0.68%
- aten.mm                      1.536K      1.36%
- aten.convolution_backward   55.296K     48.98%
Net.body                       2.304K      2.04%
- aten.addmm                   0.768K      0.68%
- aten.mm                      1.536K      1.36%
Net.conv                     110.592K     97.96%
- aten.convolution            55.296K     48.98%
- aten.convolution_backward   55.296K     48.98%
"""


def _counted(function: Callable[[], Any]) -> dict[str, int]:
    with FlopCounterMode(display=False) as counter:
        function()
    return {str(op): count for op, count in counter.get_flop_counts().get("Global", {}).items()}


def _grown(function: Callable[..., torch.Tensor], *shapes: tuple[int, ...]) -> dict[str, int]:
    inputs = [torch.ones(shape, requires_grad=True) for shape in shapes]
    return _counted(lambda: function(*inputs).sum().backward())


def test_operations_of_single_calls_are_pytorchs() -> None:
    ones = torch.ones
    assert _counted(lambda: ones(4, 5) @ ones(5, 6)) == {"aten.mm": 240}
    assert _grown(torch.matmul, (4, 5), (5, 6)) == {"aten.mm": 720}
    assert _counted(lambda: torch.bmm(ones(2, 3, 4), ones(2, 4, 5))) == {"aten.bmm": 240}
    assert _counted(lambda: torch.baddbmm(ones(2, 3, 5), ones(2, 3, 4), ones(2, 4, 5))) == {"aten.baddbmm": 240}
    assert _counted(lambda: torch.addmm(ones(3, 5), ones(3, 4), ones(4, 5))) == {"aten.addmm": 120}
    assert _counted(lambda: ones(3, 4) @ ones(4)) == {}
    assert _counted(lambda: F.linear(ones(2, 3, 4), ones(5, 4), ones(5))) == {"aten.addmm": 240}
    assert _counted(lambda: F.linear(ones(4), ones(5, 4))) == {"aten.mm": 40}
    assert _grown(lambda x, w: F.conv2d(x, w, groups=2), (2, 4, 8, 8), (6, 2, 3, 3)) == {
        "aten.convolution": 15552, "aten.convolution_backward": 46656}
    assert _grown(lambda x, w: F.conv_transpose2d(x, w, stride=2), (2, 4, 8, 8), (4, 6, 3, 3)) == {
        "aten.convolution": 55296, "aten.convolution_backward": 110592}
    assert _counted(lambda: nn.GRU(4, 5)(ones(2, 3, 4))) == {"aten.addmm": 1620}
    assert _counted(lambda: nn.MultiheadAttention(8, 2)(*[ones(2, 3, 8)] * 3)) == {"aten.addmm": 3072, "aten.bmm": 384}


def test_attention_counts_its_two_products() -> None:
    shape = (2, 3, 8, 16)
    forward = 2 * 2 * 2 * 3 * 8 * 8 * 16
    assert _grown(F.scaled_dot_product_attention, shape, shape, shape) == {
        "aten._scaled_dot_product_flash_attention": forward,
        "aten._scaled_dot_product_flash_attention_backward": forward * 5 // 2}


def test_formulas_can_be_added() -> None:
    @register_flop_formula(torch.ops.aten.sin)
    def of_sine(shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
        return 10 * shape.numel()

    try:
        assert _counted(lambda: torch.sin(torch.ones(3))) == {"aten.sin": 30}
        with pytest.raises(RuntimeError, match="duplicate registrations for aten.sin"):
            register_flop_formula(torch.ops.aten.sin)(of_sine)
    finally:
        del flop_registry[torch.ops.aten.sin]
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.relu: lambda *a, **k: 7}) as counter:
        torch.relu(torch.ones(3))
    assert counter.get_total_flops() == 7


# tensorboard ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Any) -> Any:
    """(what to log) -> what TensorBoard's own reader finds."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from mindtorch_v2.utils.tensorboard import SummaryWriter

    def write(log: Callable[[Any], None], folder: str = "") -> Any:
        with SummaryWriter(tmp_path) as writer:
            log(writer)
        return EventAccumulator(str(tmp_path / folder), size_guidance={"images": 0, "histograms": 0}).Reload()

    return write


def test_scalars_read_back(written: Any) -> None:
    def log(writer: Any) -> None:
        for step in range(3):
            writer.add_scalar("loss", torch.tensor(1.5) * step, step, walltime=100.0 + step)
        writer.add_scalars("both/parts", {"a": 1, "b": 2.5}, 7)

    assert [(e.step, e.value, e.wall_time) for e in written(log).Scalars("loss")] == [
        (0, 0.0, 100.0), (1, 1.5, 101.0), (2, 3.0, 102.0)]
    assert [e.value for e in written(lambda writer: None, "both_parts_b").Scalars("both/parts")] == [2.5]
    with pytest.raises(AssertionError, match="Tensor should contain one element"):
        written(lambda writer: writer.add_scalar("x", torch.ones(2)))


def test_histograms_read_back(written: Any) -> None:
    found = written(lambda writer: writer.add_histogram("h", torch.tensor([1.0, 2.0]), 3)).Histograms("h")[0]
    values = found.histogram_value
    assert (found.step, values.min, values.max, values.num, values.sum, values.sum_squares) == (3, 1, 2, 2, 3, 5)
    assert values.bucket == [0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert values.bucket_limit[0] == pytest.approx(0.917246389039776)
    with pytest.raises(ValueError, match="The input has no element."):
        written(lambda writer: writer.add_histogram("h", torch.ones(0)))


def test_pictures_read_back(written: Any) -> None:
    import io

    from PIL import Image

    pixels = torch.arange(90, dtype=torch.uint8).reshape(3, 6, 5)

    def log(writer: Any) -> None:
        writer.add_image("one", pixels, 1)
        writer.add_images("several", torch.stack([pixels, pixels]), 1)
        writer.add_image("grey", torch.full((4, 3), 0.5), 1, dataformats="HW")

    found = written(log)

    def picture(tag: str) -> np.ndarray:
        return np.asarray(Image.open(io.BytesIO(found.Images(tag)[0].encoded_image_string)))

    assert np.array_equal(picture("one"), pixels.permute(1, 2, 0).numpy())
    assert picture("several").shape == (6, 10, 3)
    assert (picture("grey") == 127).all()


def test_figures_become_pictures(written: Any) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(1, 2), dpi=50)
    image = written(lambda writer: writer.add_figure("f", figure, 1, close=False)).Images("f")[0]
    assert (image.width, image.height) == (50, 100)


def test_texts_and_tensors_read_back(written: Any) -> None:
    from tensorboard.util import tensor_util

    def log(writer: Any) -> None:
        writer.add_text("note", "**é**", 2)
        writer.add_tensor("half", torch.tensor([1.5, -2.0], dtype=torch.float16), 2)

    found = written(log)
    assert tensor_util.make_ndarray(found.Tensors("note/text_summary")[0].tensor_proto).tolist() == ["**é**".encode()]
    assert tensor_util.make_ndarray(found.Tensors("half")[0].tensor_proto).tolist() == [1.5, -2.0]


def test_hyperparameters_read_back(written: Any) -> None:
    from tensorboard.plugins.hparams import plugin_data_pb2

    def log(writer: Any) -> None:
        writer.add_hparams({"lr": 0.1, "name": "q"}, {"hp/loss": 0.5}, run_name="run")

    found = written(log, "run")
    assert found.Scalars("hp/loss")[0].value == 0.5
    content = found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    assert start.hparams["lr"].number_value == 0.1
    assert start.hparams["name"].string_value == "q"
    with pytest.raises(TypeError, match="hparam_dict and metric_dict should be dictionary."):
        written(lambda writer: writer.add_hparams([1], {}))


def test_a_closed_writer_writes_into_a_new_file(tmp_path: Any) -> None:
    pytest.importorskip("tensorboard")
    from mindtorch_v2.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(tmp_path)
    writer.add_scalar("a", 1)
    writer.close()
    writer.close()
    writer.add_scalar("a", 2)
    writer.flush()
    writer.close()
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 2
    with pytest.raises(NotImplementedError, match="mindtorch_v2 has no SummaryWriter.add_graph"):
        writer.add_graph(nn.Linear(2, 2))


def test_without_the_package_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.partition(".")[0] == "tensorboard":
            raise ImportError(name)
        return real(name, *args)

    for name in [n for n in sys.modules if n.startswith("mindtorch_v2.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        import mindtorch_v2.utils.tensorboard  # noqa: F401


# weak references and swapped tensors ---------------------------------------------------------------------------------


def test_a_dictionary_by_identity_forgets_dead_keys() -> None:
    a, b = torch.ones(2), torch.ones(2)
    kept = WeakIdKeyDictionary({a: 1})
    kept[b] = 2
    assert (kept[a], kept[b], len(kept), torch.ones(2) in kept) == (1, 2, 2, False)
    reference = TensorWeakRef(b)
    assert reference() is b
    del b
    gc.collect()
    assert list(kept.values()) == [1]
    assert reference() is None


def test_tensors_swap_what_they_are() -> None:
    parameter, plain = nn.Parameter(torch.ones(2)), torch.zeros(3)
    other = parameter
    swap_tensors(parameter, plain)
    assert (type(other), other.shape, type(plain)) == (torch.Tensor, (3,), nn.Parameter)
    assert plain.requires_grad and not other.requires_grad
    held = TensorWeakRef(plain)
    with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref associated with it"):
        swap_tensors(parameter, plain)
    assert held() is plain


# reports and refusals ------------------------------------------------------------------------------------------------


def test_a_report_of_the_environment() -> None:
    from mindtorch_v2.utils import collect_env

    text = collect_env.get_pretty_env_info()
    assert text.startswith(f"PyTorch version: {torch.__version__}")
    assert f"[pip3] numpy=={np.__version__}" in text
    assert "Is CUDA available:" in text
    run = subprocess.run([sys.executable, "-m", "mindtorch_v2.utils.collect_env"], capture_output=True, text=True,
                         check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert run.stdout.startswith("Collecting environment information...\nPyTorch version: ")


def test_what_is_not_here_says_so_when_used() -> None:
    from mindtorch_v2.ao.quantization import QuantStub, prepare
    from mindtorch_v2.utils.cpp_extension import CppExtension, load, load_inline
    from mindtorch_v2.utils.mobile_optimizer import optimize_for_mobile

    for use in (load, load_inline, CppExtension):
        with pytest.raises(NotImplementedError, match="Declare an operator in Python with torch.library.custom_op"):
            use("name")
    for use in (prepare, QuantStub, torch.quantization.prepare, optimize_for_mobile, torch.empty_quantized):
        with pytest.raises(NotImplementedError, match="mindtorch_v2 has no "):
            use()
    with pytest.raises(RuntimeError, match="This function was deprecated since version 1.9 and is now removed"):
        torch.symeig(torch.eye(2))


def test_settings_of_save_and_load(tmp_path: Any) -> None:
    from mindtorch_v2.utils.serialization import config

    torch.save(torch.ones(3), tmp_path / "x.pt")
    assert (config.load.mmap, config.save.compute_crc32, config.save.storage_alignment) == (False, True, 64)
    config.load.mmap = True
    try:
        with open(tmp_path / "x.pt", "rb") as file, pytest.raises(ValueError, match="f must be a file path"):
            torch.load(file)
        assert torch.equal(torch.load(tmp_path / "x.pt"), torch.ones(3))
    finally:
        config.load.mmap = False


# torch.cpu, torch.monitor, devices -----------------------------------------------------------------------------------


def test_the_host_as_a_device() -> None:
    assert torch.cpu.is_available() and torch.cpu.device_count() == 1 and torch.cpu.current_device() == "cpu"
    stream = torch.cpu.Stream()
    with torch.cpu.stream(stream):
        assert torch.cpu.current_stream() is stream
    assert torch.cpu.current_stream() is not stream
    assert torch.cpu.get_capabilities()["num_logical_cores"] >= 1
    assert torch.get_device_module("cpu") is torch.cpu
    with pytest.raises(RuntimeError, match="Device 'meta' does not have a corresponding module"):
        torch.get_device_module("meta")
    assert repr(torch.Stream("cpu")) == "torch.Stream device_type=cpu, device_index=-1, stream_id=0"
    with pytest.raises(RuntimeError, match="cpu backend doesn't support events."):
        torch.Event("cpu").record()


def test_statistics_are_logged_when_their_window_ends() -> None:
    from mindtorch_v2 import monitor

    seen: list[Any] = []
    handle = monitor.register_event_handler(seen.append)
    try:
        kinds = [monitor.Aggregation.SUM, monitor.Aggregation.MAX, monitor.Aggregation.COUNT]
        stat = monitor.Stat("s", kinds, datetime.timedelta(0))
        stat.add(1.0)
        stat.add(3.0)
        assert stat.get() == dict(zip(kinds, (3.0, 3.0, 1.0), strict=True))
    finally:
        monitor.unregister_event_handler(handle)
    assert [event.data for event in seen] == [{"s.sum": 1.0, "s.max": 1.0, "s.count": 1.0},
                                              {"s.sum": 3.0, "s.max": 3.0, "s.count": 1.0}]


@pytest.mark.parametrize(("expression", "error", "text"), [
    ("torch.device('cpu', -1)", RuntimeError, "Device index must not be negative"),
    ("torch.device('cpu', True)", TypeError, "argument 'index' \\(position 2\\) must be int, not bool"),
    ("torch.device('cpu:')", RuntimeError, "Invalid device string: 'cpu:'"),
    ("torch.Size([1]) + [2]", TypeError, "can only concatenate tuple \\(not list\\) to torch.Size"),
    ("torch.set_default_dtype('float32')", TypeError, "invalid dtype object: only floating-point types"),
    ("torch.iinfo(torch.bool)", TypeError, "torch.bool is not supported by torch.iinfo"),
    ("torch.Generator().graphsafe_get_state()", NotImplementedError, "not supported in this Generator"),
    ("torch.Generator().set_state(3)", TypeError, "expected a torch.ByteTensor, but got int"),
])
def test_errors_of_small_objects(expression: str, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        eval(expression)


def test_small_attributes() -> None:
    x = torch.ones(2, 3)
    assert +x is x
    assert (x.grad_dtype, x.name, x.volatile) == (torch.float32, None, False)
    assert [d.abbr for d in (torch.float32, torch.bfloat16, torch.uint8, torch.bool, torch.float8_e4m3fn)] == [
        "f32", "bf16", "u8", "b8", "f8e4m3fn"]
    assert torch.finfo(float) == torch.finfo(torch.float64) != torch.finfo(torch.float32)
    assert x.storage_type() is torch.FloatStorage


# scripts -------------------------------------------------------------------------------------------------------------


@torch.jit.script
def scripted(x):
    return x + 1


def test_a_scripted_function_runs_and_says_what_it_cannot():
    assert isinstance(scripted, torch.jit.ScriptFunction) and scripted.__name__ == "scripted"
    assert scripted(torch.ones(1)).item() == 2.0 and pickle.loads(pickle.dumps(scripted)) is scripted
    traced = torch.jit.trace(lambda x: x * 3, torch.ones(1))
    assert traced(torch.ones(1)).item() == 3.0 and not hasattr(traced, "something")
    for name in ("save", "graph", "code"):
        with pytest.raises(NotImplementedError, match=f"no torch.jit.ScriptFunction.{name}. TorchScript files need"):
            getattr(traced, name)


@pytest.mark.parametrize("made", [torch.jit.script, lambda model: torch.jit.trace(model, torch.ones(2))])
def test_a_scripted_module_says_what_it_cannot(made):
    model = torch.nn.Linear(2, 1)
    with pytest.raises(AttributeError, match="^'Linear' object has no attribute 'save'$"):
        model.save("model.pt")
    scripted = made(model)
    assert pickle.loads(pickle.dumps(scripted)).weight.tolist() == model.weight.tolist()
    with pytest.raises(AttributeError, match="no attribute 'save': torch.jit.trace and .* torch.save its state_dict"):
        scripted.save("model.pt")


def test_a_tensor_is_as_described() -> None:
    x = torch.ones(2, 3)
    torch._assert_tensor_metadata(x, [2, 3], (3, 1), torch.float32, device="cpu", layout=torch.strided)
    torch._assert_tensor_metadata(x)
    for options, text in (({"size": [3]}, r"sizes mismatch! Expected: \[3\], Got: \[2, 3\]"),
                          ({"stride": [1]}, "strides"), ({"dtype": torch.int32}, "dtype"),
                          ({"device": "meta"}, "device mismatch! Expected: meta")):
        with pytest.raises(RuntimeError, match=f"Tensor {text}"):
            torch._assert_tensor_metadata(x, **options)
