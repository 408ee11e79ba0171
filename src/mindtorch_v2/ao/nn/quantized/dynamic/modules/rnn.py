"""An LSTM with quantized weights."""

from typing import Any

import mindtorch_v2 as torch

from ......_quantized import linear_dynamic
from .linear import _check_kind, quantized_weight

__all__ = ["LSTM"]


class LSTM(torch.nn.Module):
    """An LSTM with weights in qint8; a layer quantizes its whole input at once, and its state at each step."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 dtype: Any = torch.qint8) -> None:
        super().__init__()
        _check_kind(dtype)
        self.mode, self.input_size, self.hidden_size = "LSTM", input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.dtype, self.training = float(dropout), bidirectional, dtype, False
        self._cells: list[tuple] = []

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> "LSTM":
        """The layer with the weights of one in float32."""
        if mod.proj_size:
            raise NotImplementedError("an LSTM with projections is not quantized here")
        made = cls(mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
                   mod.bidirectional)
        for layer in range(mod.num_layers):
            for direction in ("", "_reverse") if mod.bidirectional else ("",):
                weights = [getattr(mod, f"{name}_l{layer}{direction}") for name in ("weight_ih", "weight_hh")]
                biases = [getattr(mod, f"{name}_l{layer}{direction}", None) for name in ("bias_ih", "bias_hh")]
                made._cells.append((*map(quantized_weight, weights), *biases))
        return made

    def forward(self, input: Any, hx: Any = None) -> Any:
        if not isinstance(input, torch.Tensor) or input.dim() != 3:
            raise NotImplementedError("a quantized LSTM takes a tensor of 3 dimensions: pad packed sequences")
        steps = input.transpose(0, 1) if self.batch_first else input
        count = self.num_layers * (2 if self.bidirectional else 1)
        if hx is None:
            hx = (steps.new_zeros(count, steps.shape[1], self.hidden_size),) * 2
        last: list[tuple] = []
        for layer in range(self.num_layers):
            directions = []
            for reverse in (False, True)[: 1 + self.bidirectional]:
                number = len(last)
                made, state = self._run(steps, self._cells[number], hx[0][number], hx[1][number], reverse)
                directions.append(made)
                last.append(state)
            steps = torch.cat(directions, -1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                steps = torch.nn.functional.dropout(steps, self.dropout)
        output = steps.transpose(0, 1) if self.batch_first else steps
        return output, tuple(torch.stack(states) for states in zip(*last, strict=True))

    @staticmethod
    def _run(steps: Any, cell: tuple, h: Any, c: Any, reverse: bool) -> tuple[Any, tuple]:
        weight_ih, weight_hh, bias_ih, bias_hh = cell
        rows = linear_dynamic(steps, weight_ih, bias_ih).unbind(0)
        outputs = []
        for row in reversed(rows) if reverse else rows:
            i, f, g, o = (row + linear_dynamic(h, weight_hh, bias_hh)).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs[::-1] if reverse else outputs), (h, c)

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTM"

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        for name, default in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0),
                              ("bidirectional", False)):
            if getattr(self, name) != default:
                shown += f", {name}={getattr(self, name)}"
        return shown

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for number, cell in enumerate(self._cells):
            destination[f"{prefix}_all_weight_values.{number}.param"] = cell

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for number in range(len(self._cells)):
            cell = state_dict.pop(f"{prefix}_all_weight_values.{number}.param", None)
            if not isinstance(cell, tuple) or len(cell) != 4:
                args[4 if cell is not None else 2].append(f"{prefix}_all_weight_values.{number}.param")
            else:
                self._cells[number] = cell
        super()._load_from_state_dict(state_dict, prefix, *args)
