"""Calls that PyTorch refuses are refused with its exception and its words, and change nothing."""

import json
import pathlib
import re
import warnings

import pytest
from bad_calls import BAD_CALLS, outcome

import mindtorch_v2 as torch

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden" / "bad_calls.json").read_text())
CALLS = [call for calls in BAD_CALLS.values() for call in calls]

# What is said in other words than PyTorch's, and what the text must hold.
OTHER_WORDS = {
    # PyTorch knows whether an argument was written by name, and by which name the function was called.
    "torch.logit(i, eps='x')": "logit(): argument 'eps' (position 2) must be float, not str",
    "torch.nan_to_num(a, nan='x')": "nan_to_num(): argument 'nan' (position 2) must be float, not str",
    "torch.special.expit('x')": "sigmoid(): argument 'input' (position 1) must be Tensor, not str",
    "torch.special.log_softmax(a, 'x')": "log_softmax(): argument 'dim' (position 2) must be int, not str",
    "torch.special.sinc('x')": "sinc(): argument 'input' (position 1) must be Tensor, not str",
    "torch.special.exp2()": 'exp2() missing 1 required positional arguments: "input"',
    "a.sum(0, keepdim=torch.tensor(True))": "argument 'keepdim' (position 2) must be bool, not Tensor",
    "torch.unique(i, sorted=1)": "unique(): argument 'sorted' (position 2) must be bool, not int",
    "torch.special.softmax(a, 0, out=a)": "softmax() got an unexpected keyword argument 'out'",
    "a.max(0, out=a)": "max() received an invalid combination of arguments",
    "F.embedding(idx, q, max_norm='x')": "argument 'max_norm' (position 4) must be float, not str",
    "a.copy_('x')": "copy_(): argument 'src' (position 1) must be Tensor, not str",
    "a.reshape(2, 3.)": "reshape() takes 1 positional argument but 2 were given",
    "a.tolist(1)": "tolist() takes 1 positional argument but 2 were given",
    "a.element_size(1)": "element_size() takes 1 positional argument but 2 were given",
    "a.numel(1)": "numel() takes 1 positional argument but 2 were given",
    "a.dim(1)": "dim() takes 1 positional argument but 2 were given",
    "torch.arange('x')": "arange(): argument 'start' (position 1) must be Number, not str",
    "torch.tensor()": "tensor() missing 1 required positional argument: 'data'",
    "torch.tensor([1], dtype='x')": "argument 'dtype' must be torch.dtype, not str",
    "torch.frombuffer(b'')": "frombuffer() missing 1 required keyword-only argument: 'dtype'",
    "torch.add(a, other=a, self=a)": "add() got multiple values for argument 'self'",
    "torch.sum(a, 0, False, None)": "sum() takes from 1 to 3 positional arguments but 4 were given",
    "torch.cat(tensor=[a])": "cat() got an unexpected keyword argument 'tensor'",
    "a.sum(axis=0, dim=1)": "sum() got multiple values for argument 'axis'",
    "a.norm(2, 0, keepdims=True)": "norm() got an unexpected keyword argument 'keepdims'",
    "torch.unique(a, axis=0)": "unique() got an unexpected keyword argument 'axis'",
    "torch.where(m, 1, a, out=a)": "where() received an invalid combination of arguments",
    "torch.where(m, 1, a, out=None)": "where() received an invalid combination of arguments",
    "torch.median(a, out=None)": "median() received an invalid combination of arguments",
    "a.clamp_(g[0, 0], 1)": "clamp() received an invalid combination of arguments",
    "a.to_sparse().index_select(0, idx.to('meta'))": "Could not run 'aten::index_select' with arguments from the",
    "F.linear_cross_entropy(v, q, numpy.float64(1))": "argument 'target' (position 2) must be Tensor, not float64",
    "a.moveaxis([0], 1)": "movedim() received an invalid combination of arguments",
    "torch.gradient(a, dim=(0, 'x'))": "gradient(): argument 'dim' must be int, not str",
    "torch.masked.mean(a, 1.5, mask=m)": "sum(): argument 'dim' (position 1) must be tuple of ints, not float",
    "torch.sparse.sum(a.to_sparse(), [1, 'x'])": "must be tuple of ints, but found element of type str at pos 1",
    "F.huber_loss(a, a, delta=numpy.array('x'))": "argument 'delta' (position 4) must be float, not ndarray",
    # The first of several faults is another.
    "torch.mm(a, meta)": "Expected all tensors to be on the same device, but found at least two devices, cpu and meta!",
    "F.cross_entropy(a, idx.to('meta'))": "found at least two devices, cpu and meta! (in aten::cross_entropy_loss",
    "F.ctc_loss(x3.log_softmax(2), i[:, :2], torch.tensor([9, 2, 2]), torch.tensor([1, 1, 1]))":
        "Expected input_lengths to have value at most 2, but got value 9",
    "a.masked_fill_(x3 > 0, 0)": "The size of tensor a (4) must match the size of tensor b (3)",
    "a.masked_scatter_(torch.ones(4).bool(), a)": "The size of tensor a (4) must match the size of tensor b (3)",
    # PyTorch's text tells less, or what is not so.
    "torch.roll(a, -2**63)": "shifts expected to contain only concrete integers",
    "torch.autograd.grad(g.sum(), g, create_graph=10**30)": "unsigned byte integer is greater than maximum",
    "F.max_unpool2d(torch.ones(1, 1, 1, 1), torch.tensor([[[[3]]]]), 2, output_size=torch.tensor((2, 2)))":
        "output_size should hold ints, but got Tensor",
    "F.conv2d(x4, w4[0], padding='same')": "3-dimensional weight [3, 3, 3], but got 4-dimensional input of size",
    "F.conv2d(x4, x4[None], padding='same')": "weight [1, 2, 3, 6, 6], but got 4-dimensional input of size",
    "a.fliplr(3)": "fliplr() takes 0 positional arguments but 1 was given",
    "a.t_(1)": "t_() takes 0 positional arguments but 1 was given",
    "a.is_conj(1)": "is_conj() takes 0 positional arguments but 1 was given",
    "torch.signal.windows.hann('x')": "argument 'M' (position 1) must be int, not str",
    "F.celu(a, 1j)": "value cannot be converted to type float without overflow",
    "torch.linalg.pinv(a, rtol=1j)": "argument 'rtol' must be float, not complex",
    "torch.hann_window(3, dtype=torch.int64)": "hann_window expects floating point dtypes, got: Long",
    "F.group_norm(x4, 3, v, v4)": "but got bias of shape [4] and input of shape [2, 3, 6, 6]",
    "F.conv2d(x4, w4[:, :, :0])": "kernel size should be greater than zero, but got [0, 3]",
    "F.conv1d(x3, x3[:, :, :0])": "kernel size should be greater than zero, but got [0]",
    "F.conv_transpose2d(x4, w4[:3, :0])": "non-empty weight tensor expected, but got: [3, 0, 3, 3]",
    "F.conv_transpose2d(x4, w4[:3], padding=9)": "Calculated output size per channel: (-10 x -10)",
    "torch.meshgrid(a)": "Expected 0D or 1D tensor in the tensor list but got: torch.FloatTensor[2, 3]",
    # PyTorch asks its arguments in another order.
    "F.instance_norm(x3, None, None, 1.5)": "argument 'weight' (position 4) must be Tensor, not float",
    "F.softmin((1, 2), 0)": "softmin(): argument 'input' (position 1) must be Tensor, not tuple",
    "g.sum().backward(1.5)": "gradients can be either Tensors or None, but got float",
    # A set that PyTorch shows in any order, other devices, another name.
    "torch.nn.Conv2d(3, 4, 3, padding='x')": "Invalid padding string 'x', should be one of",
    **dict.fromkeys(("torch.zeros(2, device='gpu')", "torch.device('gpu')", "a.to('gpu')", "torch.Generator('gpu')"),
                    "device type at start of device string: gpu"),
    "torch.from_numpy(a)": "expected np.ndarray (got mindtorch_v2._core.tensor.Tensor)",
    "torch.broadcast_shapes((5, 10, 5), (s, 5))": "Expected bool, got <class 'mindtorch_v2._core.tensor.Tensor'>",
    "torch.no_such_function(a)": "module 'mindtorch_v2' has no attribute 'no_such_function'",
    "F.no_such_function(a)": "module 'mindtorch_v2.nn.functional' has no attribute 'no_such_function'",
}  # fmt: skip


def wanted_text(call: str) -> str:
    """The part of PyTorch's text that ours must hold: all of it, but for lists of overloads and the library's name."""
    if call in OTHER_WORDS:
        return OTHER_WORDS[call]
    text = GOLDEN[call]["text"]
    text = text.replace("torch._C._TensorMeta", "type")  # the class of the class Tensor
    text = text.split("  (Could this error message be improved?")[0]
    overloads = re.match(r"\w+\(\) received an invalid combination of arguments", text)
    return text.split("(")[0] + "()" if overloads else text


def test_the_table_covers_all_families() -> None:
    assert len(CALLS) == len(set(CALLS)) > 1300
    assert set(GOLDEN) == set(CALLS)
    assert all(len(calls) >= 20 for calls in BAD_CALLS.values())
    assert set(OTHER_WORDS) <= set(CALLS)


@pytest.mark.parametrize("call", CALLS)
def test_a_bad_call_raises_and_changes_nothing(call: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error, returned, changed = outcome(torch, call)
    assert error is not None, f"was taken: {returned!r}"
    assert type(error).__name__ == GOLDEN[call]["type"], f"{type(error).__name__}: {error}"
    assert wanted_text(call) in str(error)
    assert set(changed) <= set(GOLDEN[call].get("changed", ()))
