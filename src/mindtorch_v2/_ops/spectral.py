"""Short-time Fourier transforms."""

from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import FLOAT
from .._core.elements import has_elements, type_text
from .._core.tensor import Tensor
from .._core.warn import warn, warn_once
from .._dispatch.callers import call_bound
from .._dispatch.registry import registry
from ._declare.op import composite, function_of
from ._declare.rules import shape_text
from ._declare.samples import case, cases, error, t
from .fft import BY_COUNT, BY_ROOT, PLAIN, _fft_c2c, _fft_c2r, _fft_r2c
from .join import constant_pad_nd
from .slice import unfold_backward

_view_as_real = function_of(registry.get("aten::view_as_real"))

_NO_WINDOW = ("A window was not provided. A rectangular window will be applied,which is known to cause spectral "
              "leakage. Other windows such as torch.hann_window or torch.hamming_window are recommended to reduce "
              "spectral leakage.To suppress this warning and use a rectangular window, explicitly set "
              "`window=torch.ones(n_fft, device=<device>)`.")
_NO_INVERSE_WINDOW = ("A window was not provided. A rectangular window will be applied.Please provide the same window "
                      "used by stft to make the inversion lossless.To suppress this warning and use a rectangular "
                      "window, explicitly set `window=torch.ones(n_fft, device=<device>)`.")
_NOT_COMPLEX = ("stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex "
                "tensors for all inputs, and return_complex=False will raise an error.\nNote: you can still call "
                "torch.view_as_real on the complex output to recover the old return format.")


def _refusal(name: str, self: Any, **arguments: Any) -> Callable[[str], RuntimeError]:
    """The error of a call that is not possible for some reason."""

    def shown(value: Any) -> Any:
        if isinstance(value, Tensor):
            return f"{type_text(value)}{{{shape_text(value.shape)}}}"
        return int(value) if isinstance(value, bool) else value

    def refuse(reason: str) -> RuntimeError:
        listed = ", ".join(f"{key}={shown(value)}" for key, value in arguments.items())
        return RuntimeError(f"{name}({type_text(self)}{shape_text(self.shape)}, {listed}) {reason}")

    return refuse


def _whole_window(window: Any, self: Any, win_length: int, n_fft: int, kind: Any) -> Any:
    """The window, ones if there is none, in the middle of zeros up to the transform's size."""
    made = self.new_ones((win_length,), dtype=kind) if window is None else window
    left = (n_fft - win_length) // 2
    return constant_pad_nd(made, (left, n_fft - win_length - left)) if win_length < n_fft else made


@composite("stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
           "center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None,"
           " bool? align_to_window=None) -> Tensor",
           samples=cases(case(t(2, 20), 8, return_complex=True), case(t(20), 8, 3, 6, t(6), return_complex=True),
                         case(t(2, 20), 8, center=False, normalized=True, onesided=False, return_complex=True),
                         case(t(20), 7, pad_mode="constant", return_complex=False),
                         case(t(20), 8, win_length=4, center=False, align_to_window=True, return_complex=True),
                         error(RuntimeError, "stft requires the return_complex parameter be given for real inputs",
                               t(20), 8),
                         error(RuntimeError, "expected 0 < win_length <= n_fft, but got win_length=9", t(20), 8, 2, 9,
                               return_complex=True),
                         error(RuntimeError, "expected a 1D window tensor of size equal to win_length=8, but got "
                               "window with size [7]", t(20), 8, window=t(7), return_complex=True)), out=None,
           autocast=dict(cpu="float32"), python="dim")
def _stft(self: Any, n_fft: int, hop_length: int | None, win_length: int | None, window: Any, center: bool,
          pad_mode: str, normalized: bool, onesided: bool | None, return_complex: bool | None,
          align_to_window: bool | None) -> Any:
    if align_to_window is not None and center:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if center:
        half = n_fft // 2
        framed = self.reshape((1,) * (3 - self.dim()) + tuple(self.shape))
        padded = call_bound(registry.get("aten::pad"), (framed, (half, half), pad_mode, None))
        self = padded.reshape((*self.shape[:-1], padded.shape[-1]))
    if window is None:
        warn_once(_NO_WINDOW)
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    is_complex = self.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None:
        if not is_complex:
            raise RuntimeError("stft requires the return_complex parameter be given for real inputs, and will further "
                               "require that return_complex=True in a future PyTorch release.")
    elif not return_complex:
        warn_once(_NOT_COMPLEX)

    refuse = _refusal("stft", self, n_fft=n_fft, hop_length=hop, win_length=width, window=window,
                      normalized=normalized, onesided=onesided, return_complex=return_complex,
                      align_to_window=align_to_window)
    if self.dtype.category < FLOAT:
        raise refuse(": expected a tensor of floating point or complex values")
    if self.dim() not in (1, 2):
        raise refuse(": expected a 1D or 2D tensor")
    signal = self if self.dim() == 2 else self.unsqueeze(0)
    length = signal.shape[1]
    if not 0 < n_fft <= length:
        raise refuse(f": expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise refuse(f": expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise refuse(f": expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is not None and tuple(window.shape) != (width,):
        raise refuse(f": expected a 1D window tensor of size equal to win_length={width}, but got window with size "
                     f"{shape_text(window.shape)}")
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if align_to_window:  # the first window, not the first transform, begins where the signal does
        left = (n_fft - width) // 2
        signal = constant_pad_nd(signal, (left, n_fft - width - left))
    frames = signal.unfold(1, n_fft, hop)
    if window is not None or width < n_fft:
        frames = frames * _whole_window(window, self, width, n_fft, self.dtype)
    scale = BY_ROOT if normalized else PLAIN
    if is_complex:
        made = _fft_c2c(frames, (2,), scale, True)
    else:
        made = _fft_r2c(frames, (2,), scale, onesided is not False)
    made = made.transpose(1, 2)
    made = made if self.dim() == 2 else made.squeeze(0)
    return made if return_complex or (return_complex is None and is_complex) else _view_as_real(made)


@composite("istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
           "center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> "
           "Tensor",
           samples=cases(error(RuntimeError, "istft requires a complex-valued input tensor matching the output from "
                               "stft with return_complex=True.", t(5, 3), 8)), out=None)
def _istft(self: Any, n_fft: int, hop_length: int | None, win_length: int | None, window: Any, center: bool,
           normalized: bool, onesided: bool | None, length: int | None, return_complex: bool) -> Any:
    if window is None:
        warn_once(_NO_INVERSE_WINDOW)
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    refuse = _refusal("istft", self, n_fft=n_fft, hop_length=hop, win_length=width, window=window, center=center,
                      normalized=normalized, onesided=onesided, length=length, return_complex=return_complex)
    if not self.dtype.is_complex:
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with "
                           "return_complex=True.")
    one_sided = _check_inverse(self, n_fft, hop, width, window, onesided, return_complex, refuse)
    spectrum = (self if self.dim() == 3 else self.unsqueeze(0)).transpose(1, 2)
    scale = BY_ROOT if normalized else BY_COUNT
    if return_complex:
        frames = _fft_c2c(spectrum, (2,), scale, False)
    else:
        spectrum = spectrum if one_sided else spectrum.narrow(2, 0, n_fft // 2 + 1)
        frames = _fft_c2r(spectrum, (2,), scale, n_fft)
    weights = _whole_window(window, self, width, n_fft, self.dtype.to_real())
    batch, count = spectrum.shape[:2]
    whole = n_fft + hop * (count - 1)
    signal = unfold_backward(frames * weights, (batch, whole), 1, n_fft, hop)
    envelope = unfold_backward(weights.square().expand(1, count, n_fft), (1, whole), 1, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - (n_fft // 2 if center else 0)
    signal, envelope = signal[:, start:end], envelope[:, start:end]
    if has_elements(self) and not bool(envelope.abs().min() > 1e-11):
        raise refuse("window overlap add min: 1\n[ CPUBoolType{} ]")
    made = signal / envelope
    if end > whole:
        warn("The length of signal is shorter than the length parameter. Result is being padded with zeros in "
             "the tail. Please check your center and hop_length settings.")
        made = constant_pad_nd(made, (0, end - whole))
    return made if self.dim() == 3 else made.squeeze(0)


def _check_inverse(self: Any, n_fft: int, hop: int, width: int, window: Any, onesided: bool | None,
                   return_complex: bool, refuse: Callable) -> bool:
    """Whether the input is one half of a spectrum; raises for what does not belong together."""
    one_sided = onesided
    if not self.numel():
        raise refuse(": input tensor cannot be empty.")
    if self.dim() not in (2, 3):
        raise refuse(f": expected a tensor with 3 or 4 dimensions, but got {self.dim() + 1}")
    bins: Sequence[int] = self.shape[-2:]
    if one_sided is None:
        one_sided = bins[0] != n_fft
    if one_sided and n_fft // 2 + 1 != bins[0]:
        raise refuse(": expected the frequency dimension (3rd to the last) of the input tensor to match "
                     f"n_fft / 2 + 1 when onesided=True, but got {bins[0]}")
    if not one_sided and n_fft != bins[0]:
        raise refuse(": expected the frequency dimension (3rd to the last) of the input tensor to match "
                     f"n_fft when onesided=False, but got {bins[0]}")
    if not 0 < hop <= width:
        raise refuse(": expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise refuse(": expected 0 < win_length <= n_fft")
    if window is not None and tuple(window.shape) != (width,):
        raise refuse(": Invalid window shape. window has to be 1D and length of `win_length`")
    if return_complex and one_sided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and window is not None and window.dtype.is_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    return one_sided
