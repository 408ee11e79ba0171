"""torch.autocast: which operators take which precision, nesting, decorators, gradients."""

import ast
import json
import pathlib
import threading
from collections.abc import Iterator

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.keys import AUTOCAST_MASK, DispatchKey, modes, unusual
from mindtorch_v2._dispatch.registry import registry
from mindtorch_v2.amp import _casts
from mindtorch_v2.nn import functional as F


def test_products_take_bfloat16_and_losses_float32() -> None:
    x, w = torch.randn(4, 8), torch.randn(3, 8)
    with torch.autocast("cpu"):
        y = F.linear(x, w)
        assert y.dtype is torch.bfloat16
        assert (x @ x.t()).dtype is torch.bfloat16
        assert F.mse_loss(y, torch.zeros(4, 3, dtype=torch.bfloat16)).dtype is torch.float32
        assert y.softmax(-1).dtype is torch.bfloat16  # in no list on the CPU
        assert (x + x).dtype is torch.float32
        assert torch.cat([y, x[:, :3]]).dtype is torch.float32
    assert (x @ x.t()).dtype is torch.float32


def test_the_numbers_are_those_of_bfloat16() -> None:
    x, w = torch.randn(4, 8), torch.randn(3, 8)
    with torch.autocast("cpu"):
        y = F.linear(x, w)
    assert torch.equal(y, F.linear(x.bfloat16(), w.bfloat16()))


def test_double_is_left_alone() -> None:
    x = torch.ones(2, 2, dtype=torch.float64)
    with torch.autocast("cpu"):
        assert (x @ x).dtype is torch.float64


def test_contexts_nest_and_can_be_disabled() -> None:
    x = torch.ones(2, 2)
    assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", dtype=torch.float16):
        assert (x @ x).dtype is torch.float16
        with torch.autocast("cpu", enabled=False):
            assert not torch.is_autocast_enabled("cpu")
            assert (x @ x).dtype is torch.float32
        assert torch.get_autocast_dtype("cpu") is torch.float16
    assert not torch.is_autocast_enabled("cpu")


def test_as_a_decorator() -> None:
    @torch.autocast("cpu")
    def product(a: torch.Tensor) -> torch.Tensor:
        return a @ a

    assert product(torch.ones(2, 2)).dtype is torch.bfloat16


def test_gradients_come_in_the_types_of_the_leaves() -> None:
    x, w = torch.randn(4, 8), torch.randn(3, 8, requires_grad=True)
    with torch.autocast("cpu"):
        loss = F.mse_loss(F.linear(x, w), torch.zeros(4, 3))
    loss.backward()
    assert w.grad.dtype is torch.float32
    expected = torch.autograd.grad(F.mse_loss(F.linear(x, w), torch.zeros(4, 3)), w)[0]
    assert torch.allclose(w.grad, expected, rtol=0.05, atol=0.02)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a CUDA device")
def test_a_device_that_is_not_there_disables_autocast() -> None:
    x = torch.ones(2, 2)
    with pytest.warns(UserWarning, match="CUDA is not available or torch_xla is imported. Disabling autocast."):
        context = torch.autocast("cuda")
    with context:
        assert (x @ x).dtype is torch.float32


def test_wrong_arguments() -> None:
    with pytest.raises(RuntimeError, match="device type at start of device string: tpu"):
        torch.autocast("tpu")
    with pytest.raises(RuntimeError, match="unsupported scalarType"):
        torch.autocast("meta")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got"):
        torch.autocast(torch.device("cpu"))  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling autocast"):
        assert not torch.autocast("cpu", dtype=torch.float64)._enabled


# against PyTorch -----------------------------------------------------------------------------------------------------

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden" / "autocast.json").read_text())
_TOOL = pathlib.Path(__file__).parents[2] / "tools" / "golden_autocast.py"


def _from_the_tool(*names: str) -> list:
    """Functions of the tool that wrote the golden values, without PyTorch's imports at its head."""
    tree = ast.parse(_TOOL.read_text())
    scope: dict = {}
    wanted = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    exec(compile(ast.Module(wanted, []), str(_TOOL), "exec"), scope)
    return [scope[name] for name in names]


_variables, _types, _losses = _from_the_tool("names", "types", "losses")


@pytest.fixture
def accelerator_lists_on_cpu() -> Iterator[None]:
    """The lists of CUDA and NPU, tried on the CPU: which types result does not depend on the device."""
    kernel = registry.backend_select[DispatchKey.Autocast]
    _casts._DEVICES["cpu"] = "accelerators"
    registry.register_for_all(DispatchKey.Autocast, kernel)  # forgets what was resolved by the other lists
    yield
    _casts._DEVICES["cpu"] = "cpu"
    registry.register_for_all(DispatchKey.Autocast, kernel)


def _differing(setting: str) -> list[str]:
    lower = setting.split()[1]
    variables, differing = _variables(torch, "cpu", lower), []
    for expression, expected in GOLDEN["types"][setting].items():
        with torch.autocast("cpu", getattr(torch, lower)):
            made = _types(expression, variables)
        if made != expected:
            differing.append(f"{expression}: {made}, PyTorch {expected}")
    return differing


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lower", ["bfloat16", "float16"])
def test_types_on_the_cpu_are_pytorchs(lower: str) -> None:
    assert "\n".join(_differing(f"cpu {lower}")) == ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lower", ["float16", "bfloat16"])
def test_types_on_accelerators_are_pytorchs(lower: str, accelerator_lists_on_cpu: None) -> None:
    assert "\n".join(_differing(f"cuda {lower}")) == ""


def test_training_follows_pytorchs_losses() -> None:
    ours = _losses(torch)
    assert ours[-1] < 0.5 * ours[0]
    assert ours == pytest.approx(GOLDEN["losses"], rel=0.005)


# casts of parameters -------------------------------------------------------------------------------------------------


def test_a_parameter_is_cast_once_until_the_outermost_context_ends() -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu"):
        first = F.linear(x, w)
        with torch.no_grad():
            w.mul_(2)
        with torch.autocast("cpu"):
            assert torch.equal(F.linear(x, w), first)
        assert torch.equal(F.linear(x, w), first)
        torch.clear_autocast_cache()
        assert not torch.equal(F.linear(x, w), first)
    with torch.autocast("cpu"):
        assert torch.equal(F.linear(x, w), F.linear(x.bfloat16(), w.bfloat16()))


def test_without_the_cache_every_use_casts() -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu", cache_enabled=False):
        assert not torch.is_autocast_cache_enabled()
        first = F.linear(x, w)
        with torch.no_grad():
            w.mul_(2)
        assert not torch.equal(F.linear(x, w), first)
    assert torch.is_autocast_cache_enabled()


def test_a_cast_made_under_no_grad_still_leads_to_the_parameter() -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu"):
        with torch.no_grad():
            assert not F.linear(x, w).requires_grad
        F.linear(x, w).sum().backward()
    assert w.grad.dtype is torch.float32


def test_precisions_nest_for_one_parameter() -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu"):
        assert F.linear(x, w).dtype is torch.bfloat16
        with torch.autocast("cpu", torch.float16):
            assert F.linear(x, w).dtype is torch.float16
        assert F.linear(x, w).dtype is torch.bfloat16


def test_in_inference_mode() -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu"):
        with torch.inference_mode():
            assert F.linear(x, w).dtype is torch.bfloat16
        assert F.linear(x, w).requires_grad


# the state -----------------------------------------------------------------------------------------------------------


def test_the_state_can_be_set_by_hand() -> None:
    x = torch.ones(2, 2)
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        assert torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled()
        assert (x @ x).dtype is torch.float16
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
    assert (x @ x).dtype is torch.float32
    assert (torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()) == (1, 0)


def test_old_forms_warn() -> None:
    with pytest.warns(DeprecationWarning, match=r"torch.get_autocast_cpu_dtype\(\) is deprecated"):
        assert torch.get_autocast_cpu_dtype() is torch.bfloat16
    with pytest.warns(DeprecationWarning, match=r"Please use torch.get_autocast_dtype\('cuda'\) instead"):
        assert torch.get_autocast_gpu_dtype() is torch.float16
    with pytest.warns(DeprecationWarning, match=r"Please use torch.set_autocast_enabled\('cpu', enabled\) instead"):
        torch.set_autocast_cpu_enabled(False)
    with pytest.warns(FutureWarning, match=r"`torch.cpu.amp.autocast\(args...\)` is deprecated"):
        context = torch.cpu.amp.autocast()
    with context:
        assert torch.is_autocast_enabled("cpu")
    with pytest.warns(FutureWarning, match=r"Please use `torch.amp.GradScaler\('cpu', args...\)` instead"):
        assert torch.cpu.amp.GradScaler().is_enabled()


def test_a_function_remembers_autocast_for_its_backward() -> None:
    seen = []

    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            (x,) = ctx.saved_tensors
            seen.append((torch.is_autocast_enabled("cpu"), (x @ x).dtype))
            return grad @ x.t() + x.t() @ grad

    x = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        y = Square.apply(x)
    y.sum().backward()
    assert seen == [(True, torch.bfloat16)] and x.grad.dtype is torch.float32


def test_inputs_can_be_cast_for_a_function() -> None:
    seen = []

    class Keep(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            seen.append((x.dtype, torch.is_autocast_enabled("cpu")))
            return x.clone()

    with torch.autocast("cpu"):
        Keep.apply(torch.ones(2, dtype=torch.bfloat16))
    Keep.apply(torch.ones(2, dtype=torch.bfloat16))
    assert seen == [(torch.float32, False), (torch.bfloat16, False)]


def test_another_thread_has_its_own_state() -> None:
    made = []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: made.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype))
        thread.start()
        thread.join()
    assert made == [torch.float32]


@pytest.mark.parametrize("graded", [True, False])
def test_modes_may_change_while_autocast_is_left(graded: bool) -> None:
    """What an operator is made of runs outside of autocast, and may switch recording; all is as it was after it."""
    x, before = torch.randn(2, 2), unusual.threads
    with torch.set_grad_enabled(graded):
        with torch.autocast("cpu"):
            left = modes.leave(AUTOCAST_MASK)
            assert (x @ x).dtype is torch.float32
            with torch.set_grad_enabled(not graded):
                assert (x @ x).dtype is torch.float32 and torch.is_grad_enabled() is not graded
            assert (x @ x).dtype is torch.float32 and torch.is_grad_enabled() is graded
            modes.come_back(left)
            assert (x @ x).dtype is torch.bfloat16 and torch.is_grad_enabled() is graded
        assert (x @ x).dtype is torch.float32 and torch.is_grad_enabled() is graded
    assert unusual.threads == before


def test_a_pipeline_records_the_types_of_autocast() -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cpu"), torch.pipeline():
        y = x @ x
        assert y.dtype is torch.bfloat16
    assert torch.equal(y, torch.full((2, 2), 2, dtype=torch.bfloat16))


@pytest.mark.parametrize("equation", ["ij,jk->ik", "bij,bjk->bik", "i,i->", "...ij,jk->...ik", "ij,jk,kl->il"])
def test_einsum_of_mixed_types(equation):
    shapes = {"i": (3,), "ij": (3, 3), "jk": (3, 3), "kl": (3, 3), "bij": (2, 3, 3), "bjk": (2, 3, 3),
              "...ij": (2, 3, 3)}  # fmt: skip
    operands = [torch.ones(shapes[term]) for term in equation.split("->")[0].split(",")]
    operands[0] = operands[0].to(torch.bfloat16)
    with pytest.raises(RuntimeError, match="expected scalar type BFloat16 but found Float"):
        torch.einsum(equation, *operands)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = torch.einsum(equation, *operands)
    assert made.dtype is torch.bfloat16
    assert torch.equal(made.float(), torch.einsum(equation, *(x.float() for x in operands)))
