"""Recurrent layers and their single steps."""

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch

from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def apply_permutation(tensor: torch.Tensor, permutation: torch.Tensor, dim: int = 1) -> torch.Tensor:
    """The tensor with its places along `dim` in another order."""
    return tensor.index_select(dim, permutation)


def _draw_uniform(module: Any) -> None:
    bound = 1 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


class RNNBase(Module):
    """What all recurrent layers share: weights of every layer and direction, and the checks of a call."""

    __constants__ = ["mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
                     "bidirectional", "proj_size"]
    __jit_unused_properties__ = ["all_weights"]
    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._check_settings(dropout)
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        rows, state = _GATES[mode] * hidden_size, proj_size or hidden_size
        directions = ("", "_reverse") if bidirectional else ("",)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else state * len(directions)
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, state)}
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for direction in directions:
                names = {f"{name}_l{layer}{direction}": shape for name, shape in shapes.items()}
                for name, shape in names.items():
                    setattr(self, name, Parameter(torch.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(list(names))
        self.reset_parameters()

    def _check_settings(self, dropout: float) -> None:
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):  # type: ignore[operator]
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element "
                             "being zeroed")
        if dropout > 0 and self.num_layers == 1:
            warnings.warn("dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                          f"num_layers greater than 1, but got dropout={dropout} and num_layers={self.num_layers}",
                          stacklevel=4)
        for kind, names in ((bool, ("bias", "batch_first")), (int, ("input_size", "hidden_size"))):
            for name in names:
                if not isinstance(getattr(self, name), kind):
                    raise TypeError(f"{name} should be of type {kind.__name__}, got: "
                                    f"{type(getattr(self, name)).__name__}")
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing: weights need not lie in one piece of memory here."""

    def reset_parameters(self) -> None:
        """Draws all weights anew, uniform within 1 / sqrt(hidden_size)."""
        _draw_uniform(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # PyTorch's pickles carry lists of the weights, which are read from the parameters here.
        derived = ("_flat_weights", "_flat_weights_names", "_flat_weight_refs", "all_weights")
        kept = {name: value for name, value in state.items() if name not in derived}
        if "all_weights" in state:
            kept.setdefault("_all_weights", state["all_weights"])
        super().__setstate__({"proj_size": 0, **kept})

    def check_input(self, input: torch.Tensor, batch_sizes: torch.Tensor | None) -> None:
        """Raises for an input of another type, rank or width than the weights take."""
        first = getattr(self, self._all_weights[0][0])
        if input.dtype != first.dtype and not torch.is_autocast_enabled(input.device.type):
            raise ValueError(f"RNN input dtype ({input.dtype}) does not match weight dtype ({first.dtype}). Convert "
                             f"input: input.to({first.dtype}), or convert model: model.to({input.dtype})")
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                               f"{input.size(-1)}")

    def _states_shape(self, input: torch.Tensor, batch_sizes: torch.Tensor | None, width: int) -> tuple[int, int, int]:
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.size(0 if self.batch_first else 1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def get_expected_hidden_size(self, input: torch.Tensor,
                                 batch_sizes: torch.Tensor | None) -> tuple[int, int, int]:
        """The shape that hidden states for this input have."""
        return self._states_shape(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(self, hx: torch.Tensor, expected_hidden_size: Sequence[int],
                          msg: str = "Expected hidden size {}, got {}") -> None:
        """Raises unless a state has the expected shape."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: torch.Tensor, hidden: Any, batch_sizes: torch.Tensor | None) -> None:
        """Raises for an input or states that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: torch.Tensor | None) -> Any:
        """States with the sequences of the batch in another order."""
        return hx if permutation is None else apply_permutation(hx, permutation)

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0,
                    "bidirectional": False}
        shown += [f"{name}={getattr(self, name)}" for name, usual in defaults.items() if getattr(self, name) != usual]
        return ", ".join(shown)

    # a call ----------------------------------------------------------------------------------------------------

    _article = "instead"  # how the text of the check of dimensions ends
    _operator: str

    def _unbatched_states(self, hx: Any, batched: bool) -> Any:
        """States with a dimension for the batch."""
        rank = 3 if batched else 2
        if hx.dim() != rank:
            raise RuntimeError(f"For {'' if batched else 'un'}batched {rank}-D input, hx should also be {rank}-D but "
                               f"got {hx.dim()}-D tensor")
        return hx if batched else hx.unsqueeze(1)

    def _zero_states(self, input: torch.Tensor, batch_sizes: torch.Tensor | None) -> Any:
        return torch.zeros(self.get_expected_hidden_size(input, batch_sizes), dtype=input.dtype, device=input.device)

    def _each_state(self, function: Any, hx: Any) -> Any:
        return function(hx)

    def forward(self, input: Any, hx: Any = None) -> Any:
        operator = getattr(torch, self._operator)
        settings = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if isinstance(input, PackedSequence):
            data, batch_sizes, sorted_indices, unsorted_indices = input
            states = self._zero_states(data, batch_sizes) if hx is None else self.permute_hidden(hx, sorted_indices)
            self.check_forward_args(data, states, batch_sizes)
            output, *last = operator(data, batch_sizes, states, self._flat_weights, *settings)
            output = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
            return output, self.permute_hidden(self._joined(last), unsorted_indices)
        if input.dim() not in (2, 3):
            raise ValueError(f"{self.mode[:4].rstrip('_')}: Expected input to be 2D or 3D, got {input.dim()}D "
                             f"{self._article}")
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
        states = self._zero_states(input, None) if hx is None else self._unbatched_states(hx, batched)
        self.check_forward_args(input, states, None)
        output, *last = operator(input, states, self._flat_weights, *settings, self.batch_first)
        if batched:
            return output, self._joined(last)
        return output.squeeze(batch_dim), self._each_state(lambda state: state.squeeze(1), self._joined(last))

    def _joined(self, last: list[Any]) -> Any:
        return last[0]


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it."""

    nonlinearity: str
    _article = "tensor instead"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{self.nonlinearity.upper()}", *args, **kwargs)

    @property
    def _operator(self) -> str:  # type: ignore[override]
        return self.mode.lower()


class GRU(RNNBase):
    """r, z = sigmoid(...); n = tanh(W_in x + b_in + r (W_hn h + b_hn)); h' = (1 - z) n + z h."""

    _operator = "gru"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """i, f, o = sigmoid(...); g = tanh(...); c' = f c + i g; h' = o tanh(c'), projected if proj_size is set."""

    _operator = "lstm"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: torch.Tensor, batch_sizes: torch.Tensor | None) -> tuple[int, int, int]:
        """The shape that cell states for this input have."""
        return self._states_shape(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: torch.Tensor, hidden: Any, batch_sizes: torch.Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes),
                               "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes),
                               "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: torch.Tensor | None) -> Any:
        if permutation is None:
            return hx
        return self._each_state(lambda state: apply_permutation(state, permutation), hx)

    def _unbatched_states(self, hx: Any, batched: bool) -> Any:
        rank = 3 if batched else 2
        if hx[0].dim() != rank or hx[1].dim() != rank:
            raise RuntimeError(f"For {'' if batched else 'un'}batched {rank}-D input, hx and cx should also be "
                               f"{rank}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors")
        return hx if batched else self._each_state(lambda state: state.unsqueeze(1), hx)

    def _zero_states(self, input: torch.Tensor, batch_sizes: torch.Tensor | None) -> Any:
        shapes = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        return tuple(torch.zeros(shape, dtype=input.dtype, device=input.device) for shape in shapes)

    def _each_state(self, function: Any, hx: Any) -> Any:
        return function(hx[0]), function(hx[1])

    def _joined(self, last: list[Any]) -> Any:
        return tuple(last)


# single steps --------------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """What single steps share: the weights of `num_chunks` gates."""

    __constants__ = ["input_size", "hidden_size", "bias"]
    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: torch.Tensor
    weight_hh: torch.Tensor

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        for name, shape in (("weight_ih", (rows, input_size)), ("weight_hh", (rows, hidden_size))):
            setattr(self, name, Parameter(torch.empty(shape, device=device, dtype=dtype)))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(torch.empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all weights anew, uniform within 1 / sqrt(hidden_size)."""
        _draw_uniform(self)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            shown += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            shown += f", nonlinearity={self.nonlinearity}"
        return shown

    def _step(self, operator: Any, input: torch.Tensor, states: tuple[Any, ...], names: tuple[str, ...]) -> Any:
        """The states after a step; without a batch dimension if the input has none."""
        kind = type(self).__name__
        for name, value in (("input", input), *zip(names, states)):
            if value is not None and value.dim() not in (1, 2):
                raise ValueError(f"{kind}: Expected {name} to be 1D or 2D, got {value.dim()}D instead")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if states[0] is None:
            states = (input.new_zeros((input.size(0), self.hidden_size)),) * len(states)
        elif not batched:
            states = tuple(state.unsqueeze(0) for state in states)
        made = operator(input, states if len(states) > 1 else states[0], self.weight_ih, self.weight_hh, self.bias_ih,
                        self.bias_hh)
        if batched:
            return made
        return tuple(state.squeeze(0) for state in made) if len(states) > 1 else made.squeeze(0)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]
    nonlinearity: str

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: torch.Tensor, hx: torch.Tensor | None = None) -> torch.Tensor:
        operator = {"tanh": torch.rnn_tanh_cell, "relu": torch.rnn_relu_cell}.get(self.nonlinearity)
        if operator is None:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(operator, input, (hx,), ("hidden",))


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (h', c') from an input and (h, c)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: torch.Tensor, hx: tuple[torch.Tensor, torch.Tensor] | None = None) -> Any:
        return self._step(torch.lstm_cell, input, (None, None) if hx is None else tuple(hx), ("hx[0]", "hx[1]"))


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: torch.Tensor, hx: torch.Tensor | None = None) -> torch.Tensor:
        return self._step(torch.gru_cell, input, (hx,), ("hidden",))
