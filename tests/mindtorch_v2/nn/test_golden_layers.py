"""Every layer of torch.nn is what PyTorch's is: its text, its state, and with the same seed the same numbers."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import mindtorch_v2 as torch

_tool = importlib.util.spec_from_file_location("golden_layers", Path(__file__).parents[3] / "tools/golden_layers.py")
golden_layers = importlib.util.module_from_spec(_tool)
_tool.loader.exec_module(golden_layers)

with np.load(golden_layers.GOLDEN) as stored:
    INDEX = json.loads(stored["index"].tobytes())
    ARRAYS = np.split(stored["values"], np.cumsum(stored["sizes"])[:-1])


@pytest.mark.parametrize("layer", golden_layers.LAYERS)
@pytest.mark.filterwarnings("ignore")
def test_layer_is_pytorchs(layer):
    expected = dict(INDEX[layer])
    first, count = expected.pop("first"), expected.pop("count")
    what, numbers = golden_layers.run(torch, layer)
    assert what == expected
    assert len(numbers) == count
    for place, (got, wanted) in enumerate(zip(numbers, ARRAYS[first : first + count], strict=True)):
        np.testing.assert_allclose(got.reshape(-1), wanted, rtol=3e-5, atol=3e-5, err_msg=f"tensor {place}")


def test_golden_layers_know_every_layer():
    assert set(INDEX) == set(golden_layers.LAYERS)
    containers = {"Module", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Container",
                  "DataParallel", "RNNBase", "RNNCellBase"}
    known = {name for name in dir(torch.nn)
             if isinstance(getattr(torch.nn, name), type) and issubclass(getattr(torch.nn, name), torch.nn.Module)}
    assert known - containers == {layer.split("(")[0].removeprefix("nn.") for layer in golden_layers.LAYERS}
