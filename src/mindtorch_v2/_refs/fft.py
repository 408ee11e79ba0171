"""torch._refs.fft: operators of torch.fft written as other operators."""

from . import fill

__all__ = """
    fft fft2 fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft
    rfft2 rfftn""".split()

fill(__name__, "fft", __all__)
