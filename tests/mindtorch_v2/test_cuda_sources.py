"""CUDA C that is written for pipelines, compiled by NVRTC, which needs no GPU."""

from typing import Any

import pytest
from tests.mindtorch_v2 import emulated_groups, nvrtc
from tests.mindtorch_v2 import test_gather_maps as maps
from tests.mindtorch_v2 import test_row_groups as rows
from tests.mindtorch_v2.interpreted_kernels import Interpreted

import mindtorch_v2 as torch
from mindtorch_v2._backends.cuda.prelude import PRELUDE
from mindtorch_v2._pipeline import run as running

WHOLE = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Any:
    if nvrtc.library() is None:
        pytest.skip("NVRTC is not found (in the CUDA toolkit, or the wheel nvidia-cuda-nvrtc)")
    monkeypatch.setattr(running, "code_of", Interpreted)
    running.forget()
    yield emulated_groups.collect(monkeypatch)[0]
    running.forget()


def check(collected: list[Any]) -> None:
    for text in {one.text for one in collected}:
        assert not nvrtc.errors(PRELUDE + text)


def test_maps_of_whole_numbers_and_truths(collected: list[Any]) -> None:
    for kind in WHOLE:
        x = (torch.arange(24).reshape(4, 6) % 3).to(kind)
        with torch.pipeline():
            made = maps.F.pad(x, (1, 2), value=1) == 1, torch.cat([x, x.roll(1, -1)]) == x[:1]
        assert made[0].shape == (4, 9)
    assert len(collected) >= len(WHOLE)
    check(collected)


@pytest.mark.parametrize("at", range(4))
def test_maps(collected: list[Any], at: int) -> None:
    """A quarter of the programs of maps, their types in turns."""
    for number, (program, _) in list(enumerate(maps.PROGRAMS.values()))[at::4]:
        before, given = len(collected), maps.operands(maps.KINDS[number // 4 % len(maps.KINDS)])
        with torch.pipeline() as pipe:
            program(*given).tolist()
        assert len(collected) > before and pipe.history
    check(collected)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64], ids=str)
def test_rows(collected: list[Any], kind: Any) -> None:
    for program in rows.PROGRAMS.values():
        with torch.pipeline():
            made = program(*rows.operands(40, kind))
            made[0].tolist()
    assert len(collected) == len(rows.PROGRAMS)
    check(collected)


def test_what_does_not_compile_is_told(collected: list[Any]) -> None:
    assert "error" in nvrtc.errors("extern \"C\" __global__ void run(int* at) { *at = unsigned char(); }")
