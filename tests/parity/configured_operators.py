"""Random calls of operators: torch, torch.nn.functional, torch.linalg, torch.fft, torch.special and Tensor methods.

A template is an expression in which `{a|b}` is one of its parts and `{word}` a value drawn by the method of Values of
that name; tensors get a line of their own.
"""

import re
from collections.abc import Callable

from configuration import Configuration, Draw, Line

FLOATS = """
torch.{abs|neg|exp|sin|cos|tanh|sigmoid|sqrt|rsqrt|log|log1p|expm1|erf|erfc|floor|ceil|round|trunc|frac|sign|square}({x})
torch.{acos|asin|atan|acosh|asinh|atanh|sinh|cosh|tan|exp2|log2|log10|erfinv|lgamma|digamma|reciprocal|sinc|logit}({x})
torch.special.{i0|i0e|i1|i1e|ndtr|ndtri|log_ndtr|entr|erfcx|xlog1py|bessel_j0|bessel_j1}({x})
torch.special.{xlogy|zeta|xlog1py}({x}, {y})
torch.{polygamma|special.polygamma}({0|1|2}, {x})
torch.mvlgamma({x}, {1|2})
torch.{atan2|hypot|copysign|nextafter|fmod|remainder|logaddexp|logaddexp2|fmax|fmin|maximum|minimum}({x}, {y})
torch.{heaviside|xlogy|float_power}({x}, {y})
torch.{clamp|clip}({x}, {-0.5|None|0}, {0.5|1|2})
torch.clamp({x}, {same}, {same})
torch.lerp({x}, {same}, {0.3|2|-1})
torch.lerp({x}, {same}, {y})
torch.{addcmul|addcdiv}({x}, {y}, {y2}, value={0.5|2|-1})
torch.nan_to_num({special}{, nan=1.0|}{, posinf=2.0|}{, neginf=-3.0|})
torch.round({x}, decimals={0|1|2|-1})
torch.{cumsum|cumprod|logcumsumexp|cummax|cummin}({x}, {dim})
torch.{logsumexp|amax|amin}({x}, {dim}{, keepdim=True|})
torch.{mean|sum|nansum|nanmean}({x}{, %dims%|, %dims%, keepdim=True|}{, dtype=torch.float64|})
torch.{std|var|std_mean|var_mean}({x}, {dim}{, correction=0|, correction=2|, unbiased=False|}{, keepdim=True|})
torch.{std|var}({x}{, unbiased=False|})
torch.norm({x}, {1|2|0|'fro'|float('inf')|3})
torch.norm({x}, {1|2|3}, {dim}{, keepdim=True|})
torch.linalg.vector_norm({x}, {0|1|2|3|float('inf')|-1}{, dim=%dims%|}{, keepdim=True|})
torch.renorm({x}, {1|2|3}, {dim}, {0.5|2.0})
torch.{quantile|nanquantile}({x}, {0.3|0.0|1.0}{, dim=%dim%|}{, keepdim=True|}\
{, interpolation='lower'|, interpolation='nearest'|})
torch.{median|nanmedian|mode}({special}, {dim}{, keepdim=True|})
torch.kthvalue({x}, 1, {dim}{, keepdim=True|})
torch.diff({x}, n={1|2}{, dim=%dim%|})
torch.gradient({x}{, spacing=0.5|}{, dim=%dim%|}{, edge_order=2|})
torch.{trapezoid|cumulative_trapezoid}({x}{, dx=0.5|}, dim={dim})
torch.histc({x}, {4|10}, {-1|0}, {1|2})
torch.histogram({x}.detach(){, 4|}{, density=True|})
torch.{softmax|log_softmax}({x}, {dim}{, dtype=torch.float64|})
F.softmin({x}, {dim})
F.{relu|relu6|elu|selu|celu|silu|mish|hardswish|hardsigmoid|hardtanh|softsign|tanhshrink|logsigmoid|gelu|leaky_relu}({x})
F.{elu|celu|leaky_relu|hardshrink|softshrink|softplus}({x}, {0.5|2})
F.threshold({x}, {0.1|0}, {5|-1})
F.hardtanh({x}, {-1|0}, {1|2})
F.glu({x}, {dim})
F.normalize({x}, {1|2|3}, {dim}{, eps=0.1|})
F.{dropout|alpha_dropout}({x}, {0|0.5|1}, {True|False})
F.{l1_loss|mse_loss|smooth_l1_loss|huber_loss}({x}, {same}{, reduction='sum'|, reduction='none'|})
F.{mse_loss|l1_loss|huber_loss}({x}, {same}{, weight=%same%|}{, reduction='sum'|, reduction='none'|})
F.{kl_div|poisson_nll_loss}({x}, {same}.abs(){, reduction='sum'|, reduction='none'|})
F.cosine_similarity({x}, {y}, {dim})
F.pairwise_distance({x}, {same}{, p=1|, p=3|}{, keepdim=True|})
F.layer_norm({x}, {tail}{, eps=0.1|})
F.rms_norm({x}, {tail}{, eps=0.1|})
F.gumbel_softmax({x}{, tau=0.5|}{, hard=True|}, dim={dim})
torch.bernoulli({x}.sigmoid())
torch.{rand_like|randn_like|zeros_like|ones_like|empty_like}({x}{, dtype=torch.float64|}\
{, memory_format=torch.contiguous_format|}).shape
torch.{frexp|signbit|isfinite|isinf|isnan|isposinf|isneginf|isreal}({special})
torch.isclose({x}, {y}{, rtol=0.5|}{, equal_nan=True|})
torch.cdist({rows}, {rows}{, p=1|, p=2|, p=0|, p=float('inf')|})
torch.pdist({mat}{, p=1|, p=3|})
torch.{cov|corrcoef}({mat})
torch.bucketize({x}, torch.tensor([-1.0, 0.0, 0.5]){, right=True|}{, out_int32=True|})
torch.searchsorted(torch.tensor([-1.0, 0.0, 0.5]), {x}.float(){, right=True|}{, side='left'|})
torch.addmm({vec3}, {a23}, {b33}{, beta=0.5|, beta=0|}{, alpha=2|})
torch.{linspace|logspace}({-1|0.5}, {3|2.5}, {5|1|0}{, dtype=torch.float64|})
torch.arange({0|1.5|-2}, {5|4.5}, {1|0.7|2})
torch.{hann_window|hamming_window|blackman_window|bartlett_window|kaiser_window}({5|1|0|8}{, periodic=False|}\
{, dtype=torch.float64|})
"""
ANY = """
torch.{add|sub|mul|eq|ne}({k}, {ky})
torch.{lt|le|gt|ge|maximum|minimum|floor_divide|true_divide|remainder|fmod}({r}, {ry})
torch.{add|sub}({k}, {ky}, alpha={2|-1})
torch.div({r}, {ry}{, rounding_mode='floor'|, rounding_mode='trunc'|})
torch.pow({k}, {2|3|0|1})
torch.pow({2|3}, {k})
torch.{logical_and|logical_or|logical_xor}({k}, {ky})
torch.{logical_not|abs|neg|sign|square|angle|real|positive|resolve_neg|sgn}({k})
torch.{bitwise_and|bitwise_or|bitwise_xor|bitwise_left_shift|bitwise_right_shift|gcd|lcm}({n}, {ny})
torch.bitwise_not({n})
torch.{all|any}({k}{, %dim%|}{, keepdim=True|})
torch.{sum|prod}({k}, {dim}{, keepdim=True|}{, dtype=torch.float64|})
torch.{sum|mean}({k}{, dtype=torch.float32|})
torch.{max|min|argmax|argmin}({r}, {dim}{, keepdim=True|})
torch.{argmax|argmin}({r})
torch.aminmax({r}, dim={dim}{, keepdim=True|})
torch.count_nonzero({k}{, %dim%|})
torch.{nonzero|argwhere}({k})
torch.sort({r}, dim={dim}{, descending=True|}, stable=True)
torch.argsort({r}, dim={dim}{, descending=True|}, stable=True)
torch.msort({x})
torch.topk({x}, 1, {dim}{, largest=False|})
torch.unique({r}{, return_inverse=True|}{, return_counts=True|})
torch.unique_consecutive({r}{, return_inverse=True|}{, return_counts=True|}{, dim=%dim%|})
torch.unique({r}, dim={dim}{, return_inverse=True|}{, return_counts=True|})
torch.where({b}, {k}, {ky})
torch.masked_fill({k}, {b}, {0|1|2})
torch.masked_select({k}, {b})
{k}.masked_scatter({b}, {same_k})
torch.flip({k}, ({dim},))
torch.flip({k}, ())
torch.{fliplr|flipud|atleast_1d|atleast_2d|atleast_3d|ravel|t|adjoint|clone|detach}({k})
torch.rot90({k}, {0|1|2|3|-1|4})
torch.roll({k}, {0|1|-2}, {dim})
torch.roll({k}, {0|1|3})
torch.tile({k}, {(1,)|(2,)|(1, 2)|(2, 1, 1)|()})
{k}.repeat({ones})
{k}.repeat({more})
torch.repeat_interleave({k}, {2|1|0}{, dim=%dim%|})
{k}.expand({wider})
torch.broadcast_to({k}, {wider})
torch.squeeze({k}{, %dim%|})
torch.unsqueeze({k}, {dim})
torch.flatten({k}{, 0, -1|, 1|})
torch.{movedim|swapaxes|transpose}({k}, {dim}, {dim2})
torch.permute({k}, {order})
{k}.{reshape|view}({flat})
{k}.contiguous({memory_format=torch.contiguous_format|})
{k}.to({dtype})
{k}.to({dtype}, copy={True|False})
{k}.{float|double|long|int|bool|half|bfloat16|byte}()
{k}.type_as({ky})
torch.{diagonal|diag_embed|tril|triu}({k}{, 1|, -1|})
torch.{diag|diagflat}({k}{, 1|, -1|})
torch.trace({full2})
torch.{chunk|tensor_split}({k}, {1|2|3}, {dim})
torch.split({k}, {1|2}, {dim})
torch.unbind({k}, {dim})
torch.cat([{k}, {same_k}], {dim})
torch.stack([{k}, {same_k}], {dim})
torch.{hstack|vstack|dstack|column_stack}([{k}, {same_k}])
torch.{hsplit|vsplit}({k}, 1)
torch.narrow({k}, {dim}, 0, 1)
torch.select({k}, {dim}, {0|-1})
torch.index_select({k}, {dim}, {index})
torch.gather({k}, {dim}, {gather})
torch.scatter({k}, {dim}, {gather}, {2|0})
torch.scatter_add({k}, {dim}, {gather}, {same_k})
torch.scatter_reduce({x}, {dim}, {gather}, {same}, '{sum|mean|amax|amin|prod}'{, include_self=False|})
torch.index_add({k}, {dim}, {index}, {same_k}.index_select({dim}, {index}){, alpha=2|})
torch.index_fill({k}, {dim}, {index}, {0|2})
torch.index_copy({k}, {dim}, {index}, {same_k}.index_select({dim}, {index}))
torch.index_reduce({x}, {dim}, {index}, {same}.index_select({dim}, {index}), '{mean|amax|amin|prod}'\
{, include_self=False|})
torch.take({k}, torch.tensor([0, -1]))
torch.take_along_dim({k}, {gather}, {dim})
{k}[..., {0|-1|None|::2|1:}]
{k}[{index}]
{k}[{b}]
{k}[{0|-1|:1|...|None}, ...]
torch.kron({k}, {ky})
torch.{outer|inner}({v1}, {v1})
torch.cartesian_prod({v1}, {v1})
torch.combinations({v1}{, r=3|}{, with_replacement=True|})
torch.meshgrid({v1}, {v1}, indexing='{ij|xy}')
torch.block_diag({k}, {ky})
torch.vander({v1}.detach(){, 3|}{, increasing=True|})
torch.bincount(torch.tensor([0, 2, 2, 5]){, minlength=8|})
torch.{tril_indices|triu_indices}({3|0}, {4|2}{, 1|, -1|})
torch.full({shape}, {1|2.5|True}{, dtype=torch.float64|})
torch.{zeros|ones|empty}({shape}{, dtype=torch.int64|}).shape
torch.eye({3|0}{, 4|}{, dtype=torch.bool|})
torch.{zeros_like|ones_like}({k})
torch.full_like({k}, {1|0})
torch.randint({0|-3}, {5|9}, {shape})
torch.randperm({5|0|20})
torch.multinomial(torch.rand(2, 4), {1|3}{, True|})
torch.normal({x}, {same}.abs())
torch.poisson({x}.abs())
torch.isin({n}, {ny}{, invert=True|})
torch.{equal|allclose}({x}, {x})
torch.{is_nonzero|numel|is_complex|is_floating_point}({k})
torch.complex({f}, {same_f})
torch.polar({f}.abs(), {same_f})
torch.view_as_real({z})
torch.histogramdd({mat}.detach(), [2, 3])
torch.as_strided({k}, (2,), (1,))
F.one_hot(torch.tensor([0, 2, 1]){, 4|})
F.pad({k}, {(0, 0)|(1, 1)|(-1, 1)|(0, 1)|[1, 0, 0, 1]}{, value=1|})
torch.ldexp({x}, {ny}.abs())
"""
LINALG = """
torch.matmul({c23}, {c34})
{c23} @ {c34}
torch.mm({a23}, {b34})
torch.bmm({a223}, {a234})
torch.baddbmm({a224}, {a223}, {a234}{, beta=0|, beta=0.5|}{, alpha=2|})
torch.addbmm({a24}, {a223}, {a234}{, beta=0.5|}{, alpha=2|})
torch.addmv({v2}, {a23}, {v3}{, beta=0.5|}{, alpha=2|})
torch.addr({a23}, {v2}, {v3}{, beta=0.5|, beta=0|}{, alpha=2|})
torch.{dot|vdot|inner}({v3}, {v3})
torch.mv({a23}, {v3})
torch.einsum('{ij,jk->ik|ij,jk|ij,jk->ki|ij,jk->}', {a23}, {b34})
torch.einsum('{ij->ji|ij->|ij->i|ii|ii->i|...ij->...ji}', {sq})
torch.tensordot({a23}, {b34}, dims={1|0|([1], [0])})
torch.chain_matmul({a23}, {b34})
torch.linalg.multi_dot([{a23}, {b34}, {b43}])
torch.linalg.{det|inv|matrix_exp|eigvals|svdvals|slogdet}({sq})
torch.linalg.cond({sq}{, 2|, 'fro'|, 1|, float('inf')|})
torch.linalg.{pinv|matrix_rank}({mat})
torch.linalg.matrix_power({sq}, {0|1|2|-1|3})
torch.linalg.{cholesky|cholesky_ex}({spd}{, upper=True|})
torch.linalg.eigvalsh({spd}{, UPLO='U'|})
torch.linalg.eigh({spd})[0]
torch.linalg.matrix_norm({mat}, {'fro'|'nuc'|1|-1|2|-2|float('inf')}{, keepdim=True|})
torch.linalg.norm({mat}{, 'fro'|, 2|, 1|, 'nuc'|}{, keepdim=True|})
torch.linalg.norm({x}, {None|2|0|1}, {dim})
torch.linalg.solve({sq}, {b34}{, left=True|})
torch.linalg.solve_triangular({spd}.tril(), {b34}, upper={True|False}{, unitriangular=True|})
torch.linalg.lstsq({spd}, {b34}).solution
torch.linalg.{lu_factor|lu_factor_ex}({sq})
torch.linalg.lu({mat}{, pivot=False|})
torch.linalg.qr({mat}, mode='{reduced|complete|r}')
torch.linalg.cross({a23}, {a23}{, dim=1|})
torch.linalg.vecdot({a23}, {a23}{, dim=0|})
torch.linalg.vander({v3}{, N=4|})
torch.linalg.ldl_factor({spd})
torch.logdet({spd})
torch.cholesky_solve({b34}, {spd}.tril())
torch.cholesky_inverse({spd}.tril())
torch.{tril|triu}({mat}, {0|1|-1})
torch.cross({a23}, {a23}, dim=1)
torch.trace({mat})
torch.fft.{fft|ifft|rfft|ihfft|hfft|irfft}({full}{, n=3|, n=5|}, dim={dim}{, norm='ortho'|, norm='forward'|})
torch.fft.{fft2|ifft2|rfft2|irfft2|fftn|ifftn|rfftn|irfftn}({full2}{, norm='ortho'|})
torch.fft.{fftshift|ifftshift}({x}{, dim=%dim%|})
torch.fft.{fftfreq|rfftfreq}({5|4|1}{, d=0.5|})
torch.stft({wave}, 4, return_complex=True{, hop_length=2|}{, center=False|}{, normalized=True|}{, onesided=False|})
"""
LAYERS = """
F.conv1d({img3}, torch.randn(4, 2, 2, requires_grad=True){, torch.randn(4)|}{, stride=2|}\
{, padding=1|, padding='same'|}{, dilation=2|})
F.conv2d({img}, torch.randn(4, 2, 2, 3, requires_grad=True){, torch.randn(4)|}{, stride=2|}\
{, padding=1|, padding=(1, 0)|, padding='valid'|}{, dilation=2|})
F.conv2d({img}, torch.randn(4, 1, 2, 2, requires_grad=True), groups=2{, stride=2|}{, padding=1|})
F.conv_transpose2d({img}, torch.randn(2, 3, 2, 2, requires_grad=True){, stride=2|}{, padding=1|}\
{, stride=2, output_padding=1|})
F.conv3d({vol}, torch.randn(3, 2, 2, 2, 2){, stride=2|}{, padding=1|})
F.{max_pool2d|avg_pool2d}({img}, {2|3|(1, 2)}{, stride=1|}{, padding=1|}{, ceil_mode=True|})
F.{max_pool1d|avg_pool1d}({img3}, {2|3}{, stride=1|}{, padding=1|}{, ceil_mode=True|})
F.lp_pool2d({img}, 2, {2|3}{, stride=1|}{, ceil_mode=True|})
F.{adaptive_avg_pool2d|adaptive_max_pool2d}({img}, {1|2|(3, 2)|(None, 2)|7})
F.interpolate({img}, scale_factor={1|2|0.5|(1, 2)}, mode='{nearest|nearest-exact|area}')
F.interpolate({img}, {size=(5, 3)|scale_factor=2|scale_factor=1.0}, mode='{bilinear|bicubic}'\
{, align_corners=True|}{, antialias=True|})
F.interpolate({img3}, size={4|7|1}, mode='linear'{, align_corners=True|})
F.grid_sample({img}, {grid}, mode='{bilinear|nearest|bicubic}', padding_mode='{zeros|border|reflection}', \
align_corners={True|False})
F.affine_grid({theta}, (2, 3, 4, 5), align_corners={True|False})
F.pad({img}, {(1, 1)|(0, 0)|(1, 0, 2, 1)|(0, 0, 0, 0)}, mode='{reflect|replicate|circular}')
F.pad({img}, {(1, 1)|(-1, 0, 1, 1)|(0, 0)}{, value=2.0|})
F.{pixel_shuffle|pixel_unshuffle|channel_shuffle}({img}, 1)
F.pixel_unshuffle(torch.randn(1, 2, 4, 6), {1|2})
F.pixel_shuffle(torch.randn(1, 8, 2, 3), {1|2})
F.unfold({img}, {2|3|(1, 2)}{, dilation=2|}{, padding=1|}{, stride=2|})
F.fold(torch.randn(1, 8, 12), (4, 5), 2)
F.batch_norm({img}, torch.zeros(2), torch.ones(2){, training=True|}{, momentum=0.3|}{, eps=0.1|})
F.instance_norm({img}{, eps=0.1|})
F.group_norm({img}, {1|2}{, eps=0.1|})
F.local_response_norm({img}, {1|2|3}{, alpha=0.1|})
F.{dropout1d|dropout2d|feature_alpha_dropout}({img}, {0|0.5}, {True|False})
F.cross_entropy({f23}, {t2}{, reduction='sum'|, reduction='none'|}{, ignore_index=1|}{, label_smoothing=0.2|}\
{, weight=torch.rand(3)|})
F.nll_loss({f23}, {t2}{, reduction='sum'|, reduction='none'|}{, ignore_index=1|}{, weight=torch.rand(3)|})
F.multi_margin_loss({f23}, {t2}{, p=2|}{, margin=0.5|}{, reduction='none'|})
F.binary_cross_entropy({x}.sigmoid(), {same}.sigmoid(){, reduction='none'|})
F.binary_cross_entropy_with_logits({x}, {same}.sigmoid(){, reduction='none'|}{, pos_weight=torch.tensor(2.0)|})
F.margin_ranking_loss({x}, {same}, torch.tensor(1.0){, margin=0.5|}{, reduction='none'|})
F.triplet_margin_loss({a23}, {a23}, {a23}{, swap=True|}{, p=1|}{, reduction='none'|})
F.cosine_embedding_loss({a23}, {a23}, torch.tensor([1, -1]){, margin=0.3|}{, reduction='none'|})
F.gaussian_nll_loss({x}, {same}, {same}.abs() + 0.1{, full=True|}{, reduction='none'|})
F.hinge_embedding_loss({x}, torch.ones(()){, margin=0.5|}{, reduction='none'|})
F.linear({a23}, torch.randn(4, 3, requires_grad=True){, torch.randn(4)|})
F.bilinear({a23}, {a23}, torch.randn(4, 3, 3){, torch.randn(4)|})
F.embedding(torch.tensor([[0, 2], [1, 1]]), torch.randn(3, 3, requires_grad=True){, padding_idx=1|}\
{, max_norm=0.5|}{, scale_grad_by_freq=True|})
F.embedding_bag(torch.tensor([0, 2, 1, 1]), {b33}, torch.tensor([0, 2]){, mode='sum'|, mode='max'|}{, padding_idx=1|})
F.scaled_dot_product_attention({a224}, {a224}, {a224}{, is_causal=True|}{, scale=0.5|})
F.prelu({img}, torch.tensor([0.1, 0.3], requires_grad=True))
F.rrelu({x}{, 0.1, 0.4|}{, training=True|})
F.softmax({x}, dim={dim}{, dtype=torch.float64|})
F.{logsigmoid|softsign|tanhshrink|hardsigmoid|mish|silu|relu6|selu}({special})
F.max_unpool2d(*F.max_pool2d({img}, 2, return_indices=True), 2)
F.fractional_max_pool2d({img}, 2, output_size=2)
F.ctc_loss(torch.randn(5, 2, 4, requires_grad=True).log_softmax(2), torch.tensor([[1, 2], [3, 1]]), (5, 4), (2, 1)\
{, reduction='sum'|, reduction='none'|}{, zero_infinity=True|})
"""
GROUPS = [
    (group.strip().splitlines(), weight) for group, weight in ((FLOATS, 35), (ANY, 40), (LINALG, 15), (LAYERS, 20))
]
SHAPES = ((3,), (2, 3), (), (2, 3, 2), (1, 3), (0, 3), (3, 1), (4,), (1,), (2, 1, 3), (2, 3, 2, 2), (0,))
MATRICES = {
    "23": (2, 3),
    "34": (3, 4),
    "33": (3, 3),
    "43": (4, 3),
    "24": (2, 4),
    "223": (2, 2, 3),
    "234": (2, 3, 4),
    "224": (2, 2, 4),
    "2": (2,),
    "3": (3,),
}
DTYPES = ("float32", "float64", "int64", "int32", "bool", "uint8", "float16", "bfloat16", "complex64")


class Values(dict):
    """What stands for the words of one template; the main tensor has `shape` and `kind`."""

    def __init__(self, d: Draw) -> None:
        self.d = d
        self.lines: list[Line] = []
        self.shape: tuple[int, ...] = d.choice(SHAPES)
        self.kind = ""
        self.matrix = d.choice(("float32", "float32", "float32", "float64", "bfloat16", "complex64"))

    def __missing__(self, word: str) -> str:
        return getattr(self, f"draw_{word}", self.matrix_of(word))()

    def matrix_of(self, word: str) -> Callable[[], str]:
        """Draws a tensor of the shape that the digits of the word say."""

        def draw() -> str:
            found = re.fullmatch(r"[abcv](?:ec)?(\d+)", word)
            if found is None:
                raise KeyError(word)
            return self.new(self.d.tensor(MATRICES[found[1]], self.matrix))

        return draw

    def new(self, source: str) -> str:
        name = f"x{sum(isinstance(line, str) for line in self.lines)}"
        self.lines.append(f"{name} = {source}")
        return name

    def made(self, shape: tuple[int, ...], dtype: str) -> str:
        if dtype == "bool":
            return self.new(f"torch.randint(0, 2, {shape}).bool()")
        if dtype.startswith(("int", "uint")):
            return self.new(self.d.ints(shape, 5, 0 if dtype == "uint8" else -4, dtype))
        return self.new(self.d.tensor(shape, dtype))

    def once(self, key: str, draw: Callable[[], str]) -> str:
        if key not in self.__dict__:
            self.__dict__[key] = draw()
        return self.__dict__[key]

    def main(self, dtypes: tuple[str, ...]) -> str:
        self.kind = self.d.choice(dtypes)
        return self.made(self.shape, self.kind)

    def partner(self, dtypes: tuple[str, ...]) -> str:
        shape = self.shape
        if self.d.maybe(0.3):
            shape = self.d.choice((shape[1:], (), tuple(1 for _ in shape), (2, *shape)))
        other = self.kind if self.d.maybe(0.7) else self.d.choice(dtypes)
        if self.d.maybe(0.15) and shape == self.shape:
            return self.d.choice(("2", "0.5", "-1"))
        return self.made(shape, other)

    def draw_x(self) -> str:
        return self.once("x", lambda: self.main(("float32", "float32", "float64", "bfloat16", "float16")))

    def draw_f(self) -> str:
        return self.main(("float32", "float64"))

    def draw_special(self) -> str:
        self.shape, self.kind = (6,), "float32"
        return self.new(
            "torch.tensor([0.5, float('nan'), float('inf'), -float('inf'), -0.0, 1e30], requires_grad=True)"
        )

    def draw_k(self) -> str:
        return self.once("k", lambda: self.main(DTYPES))

    def draw_r(self) -> str:
        return self.once("r", lambda: self.main(DTYPES[:-1]))

    def draw_n(self) -> str:
        return self.main(("int64", "int32", "bool", "uint8"))

    def draw_z(self) -> str:
        return self.main(("complex64", "complex128"))

    def draw_y(self) -> str:
        return self.made(self.shape, self.kind) if self.d.maybe(0.6) else self.partner(("float32", "float64"))

    draw_y2 = draw_y

    def draw_ky(self) -> str:
        return self.partner(DTYPES)

    def draw_ry(self) -> str:
        return self.partner(DTYPES[:-1])

    def draw_ny(self) -> str:
        return self.made(self.shape, self.kind if self.kind.startswith(("int", "uint", "bool")) else "int64")

    def draw_same(self) -> str:
        return self.made(self.shape, self.kind)

    draw_same_k = draw_same_f = draw_same

    def draw_b(self) -> str:
        return self.made(self.shape, "bool")

    def draw_dim(self) -> str:
        return self.once("dim", lambda: str(self.d.randint(-len(self.shape), max(len(self.shape) - 1, 0))))

    def draw_dim2(self) -> str:
        return str(self.d.randint(-len(self.shape), max(len(self.shape) - 1, 0)))

    def draw_dims(self) -> str:
        count = self.d.randint(0, len(self.shape))
        return self.d.choice((str(tuple(self.d.sample(range(len(self.shape)), count))), self.draw_dim()))

    def draw_order(self) -> str:
        return str(tuple(self.d.sample(range(len(self.shape)), len(self.shape))))

    def draw_flat(self) -> str:
        return self.d.choice(("-1", "(-1,)", "1, -1", "-1, 1", str(self.shape)))

    def draw_tail(self) -> str:
        return str(self.shape[-self.d.randint(1, 2) :])

    def draw_ones(self) -> str:
        return str((1,) * self.d.randint(len(self.shape), len(self.shape) + 1))

    def draw_more(self) -> str:
        return str(
            tuple(self.d.choice((1, 2, 0, 3)) for _ in range(self.d.randint(len(self.shape), len(self.shape) + 1)))
        )

    def draw_wider(self) -> str:
        wide = [self.d.choice((2, 1)) if n == 1 else n for n in self.shape]
        return str(tuple(self.d.choice(([2, *wide], wide, [-1] * len(wide), [0, *wide]))))

    def draw_dtype(self) -> str:
        return f"torch.{self.d.choice(DTYPES)}"

    def draw_shape(self) -> str:
        return str(self.shape)

    def size(self) -> int:
        dim = int(self.draw_dim())
        return self.shape[dim] if self.shape else 1

    def draw_index(self) -> str:
        return self.once(
            "index",
            lambda: (
                f"torch.tensor({[self.d.randrange(max(self.size(), 1)) for _ in range(self.d.randint(0, 3))]}, "
                "dtype=torch.int64)"
            ),
        )

    def draw_gather(self) -> str:
        return f"torch.randint(0, {max(self.size(), 1)}, {self.shape})"

    def draw_v1(self) -> str:
        self.shape = self.d.choice(((3,), (4,), (1,), (0,)))
        return self.once("v1", lambda: self.main(DTYPES))

    def draw_mat(self) -> str:
        self.shape = self.d.choice(((2, 3), (3, 2), (3, 3), (2, 3, 2), (1, 3), (0, 3, 2)))
        return self.new(self.d.tensor(self.shape, self.d.choice(("float32", "float64"))))

    def draw_f23(self) -> str:
        return self.new(self.d.tensor((2, 3), self.d.choice(("float32", "float64"))))

    def draw_full(self) -> str:
        """What PyTorch's FFT takes: it fails for empty batches."""
        self.shape = self.d.choice(((3,), (2, 3), (4,), (2, 3, 2)))
        return self.new(self.d.tensor(self.shape, self.d.choice(("float32", "float64"))))

    def draw_full2(self) -> str:
        return self.new(self.d.tensor(self.d.choice(((2, 3), (3, 3), (4, 2))), self.d.choice(("float32", "float64"))))

    def draw_rows(self) -> str:
        return self.new(self.d.tensor(self.d.choice(((3, 2), (2, 2), (1, 2), (0, 2))), "float32"))

    def draw_sq(self) -> str:
        self.shape = self.d.choice(((3, 3), (2, 3, 3), (0, 3, 3)))
        return self.new(
            f"{self.d.tensor(self.shape, self.linear_kind(), grad=0)}.add(2 * torch.eye(3))"
            f".requires_grad_({self.d.maybe()})"
        )

    def linear_kind(self) -> str:
        self.matrix = (
            self.d.choice(("float32", "float64", "float64", "complex128")) if self.matrix == "bfloat16" else self.matrix
        )
        return self.matrix

    def draw_spd(self) -> str:
        name = self.new(self.d.tensor(self.d.choice(((3, 3), (2, 3, 3))), self.linear_kind(), grad=0))
        return self.new(f"({name} @ {name}.mH + torch.eye(3)).requires_grad_({self.d.maybe()})")

    def image(self, n: int) -> str:
        shape = (self.d.choice((1, 2, 2, 0)), 2, *(self.d.randint(3, 5) for _ in range(n)))
        self.shape, self.kind = shape, "float32"
        return self.new(self.d.tensor(shape, self.kind))

    def draw_img3(self) -> str:
        return self.image(1)

    def draw_img(self) -> str:
        return self.image(2)

    def draw_vol(self) -> str:
        return self.image(3)

    def draw_grid(self) -> str:
        made = f"torch.randn({self.shape[0]}, 3, 2, 2)"
        if self.d.maybe(0.2) and self.shape[0]:  # without gradients: PyTorch may crash
            found = f"{made}.index_fill(1, torch.tensor([1]), float('{self.d.choice(('nan', 'inf', '-inf'))}'))"
            self.lines = [str(line).replace(".requires_grad_()", "") for line in self.lines]
            return self.new(found)
        return self.new(f"{made}.requires_grad_({self.d.maybe()})")

    def draw_theta(self) -> str:
        return self.new(self.d.tensor((2, 2, 3), self.d.choice(("float32", "float64"))))

    def draw_t2(self) -> str:
        return self.d.choice(("torch.tensor([0, 2])", "torch.tensor([1, 1])", "torch.tensor([2, 1])"))

    def draw_wave(self) -> str:
        return self.new(self.d.tensor(self.d.choice(((12,), (2, 12))), self.d.choice(("float32", "float64"))))


def drawn(d: Draw) -> Configuration:
    """An operator's call, then the gradients of what came out."""
    templates, _ = d.choices(GROUPS, [weight for _, weight in GROUPS])[0]
    template = d.choice(templates)
    chosen = re.sub(r"%(\w+)%", r"{\1}", d.filled(template))
    values = Values(d)
    call = re.sub(r"\{(\w+)\}", lambda found: values[found[1]], chosen)
    if d.maybe(0.05) and values.lines:
        call = f"({call}, torch.is_grad_enabled())"
    name = re.sub(r"\W+$", "", re.split(r"[(\[]", chosen.replace("{", "").replace("}", ""), maxsplit=1)[0])
    return Configuration(name, [d.seeding(), *values.lines, f"out = {call}", "back(out)"])
