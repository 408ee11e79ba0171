"""Calls that PyTorch refuses, by family of operators, and the tensors they are made with.

Each is an expression over `torch`, `F` (torch.nn.functional) and the fresh tensors of `tensors`. What PyTorch raises
stands in golden/bad_calls.json, which tools/golden_bad_calls.py writes.
"""

from typing import Any

BAD_CALLS: dict[str, list[str]] = {
    "arithmetic": [
        "a + b", "a + meta", "a.add(v4)", "torch.add(i, i, alpha=0.5)", "torch.add(a, a, alpha=1j)",
        "torch.add(m, m, alpha=2.5)", "torch.add(a, a, alpha=True)", "torch.sub(m, m)", "m - 1", "a - True", "True - a",
        "torch.rsub(m, 1)", "a.sub(True)", "-m", "abs(m)", "torch.div(a, a, rounding_mode='up')", "i // 0", "i % 0",
        "torch.fmod(i, i * 0)", "torch.remainder(c, 2)", "torch.floor_divide(c, c)", "i ** -1", "torch.pow(2, 3)",
        "i.pow_(-1)", "i.pow_(0.5)", "torch.float_power(c, 1j, out=a)", "i.add_(0.5)", "i.mul_(1.5)", "i.div_(2)",
        "a.add_(1j)", "m.add_(1)", "a.add_(x3)", "v.add_(a)", "a.mul_(b)", "torch.add(a, a, out=i)",
        "torch.add(a, a, out='here')", "torch.mul(a, b)", "torch.mul(a, a, out=m)", "a.expand(4, 2, 3).add_(1)",
        "torch.addcmul(a, a, b)", "torch.addcmul(a, a, a, value=1j)", "torch.addcdiv(a, a, a, value=1j)",
        "torch.addcdiv(i, i, i)", "torch.clamp(a)", "torch.clamp(c, 0, 1)",
        "torch.clamp_min(a, 1j)", "torch.clamp_max(a, 1j)", "a.clamp_(0, 1j)", "torch.clamp(a, min=v, max=2)",
        "torch.lerp(a, a, 1j)", "torch.lerp(a, d, 0.5)", "torch.lerp(i, i, 0.5)",
        "torch.lerp(h, h, 1j)", "torch.lerp(a, a, d)", "c.abs_()", "torch.maximum(c, c)", "torch.minimum(a, b)",
        "torch.fmax(c, c)", "torch.hypot(i, i)", "torch.atan2(c, c)", "torch.copysign(c, c)", "torch.nextafter(i, i)",
        "torch.gcd(a, a)", "torch.lcm(a, a)", "torch.ldexp(a, b)", "torch.heaviside(a, d)", "torch.heaviside(c, c)",
        "torch.bitwise_and(a, a)", "torch.bitwise_not(a)", "a & a", "a | i", "~a", "a << 1", 
        "torch.bitwise_left_shift(a, i)", "a.bitwise_or_(1)", "i.bitwise_and_(1.5)", "torch.logical_and(a, b)",
        "torch.logical_xor(a, meta)", "torch.sign(c)", "torch.signbit(c)", "torch.frexp(i)", "torch.floor(c)",
        "torch.ceil(c)", "torch.round(a, decimals='x')", "torch.round(i, decimals=1)", "torch.trunc(c)", "torch.frac(i)",
        "torch.frac(c)", "i.exp_()", "i.sqrt_()", "m.log_()", "i.sigmoid_()", "torch.exp(a, out=i)", "torch.exp('a')",
        "torch.exp(a, a)", "torch.exp()", "torch.exp(a, base=2)", "torch.polygamma(-1, a)", "torch.mvlgamma(a, 0)",
        "torch.logit(i, eps='x')", "torch.nan_to_num(a, nan='x')", "torch.complex(a, d)",
        "torch.complex(i, i)", "torch.polar(a, d)", "torch.real('x')", "torch.imag(a)", "torch.view_as_real(a)",
        "torch.view_as_complex(a)", "torch.view_as_complex(i)", "torch.angle('x')", "torch.isin('x', 'y')",
        "torch.where(a, a, a)", "torch.where(m, a, b)", "torch.where(i, a, a)", "torch.where(m, a, 'x')",
    ],
    "comparison": [
        "a < b", "c < c", "torch.lt(c, 1)", "torch.eq(a, b)", "torch.eq(a, 'x')", "torch.eq(a, a, out=a[:1])",
        "torch.gt(a, a, out=meta)", "torch.isclose(a, d)", "torch.isclose(a, a, rtol=-1)", "torch.isclose(a, a, atol=-1)",
        "torch.allclose(a, d)", "torch.equal(a, 1)", "torch.equal(a, meta)", "bool(a)", "bool(torch.zeros(0))",
        "float(a)", "int(a)", "a.item()", "complex(a)", "float(c[0, 0])", "range(a)", "range(s)", "a.__index__()",
        "torch.isposinf(c)", "torch.isneginf(c)", "torch.isfinite('x')", "if_(a == a)", "a in 3", "'x' in a",
    ],
    "reduction": [
        "a.sum(2)", "a.sum(-3)", "a.sum((0, 0))", "a.sum((0, -2))", "a.sum('x')", "torch.sum(a, dim=[0, 5])",
        "a.mean(dtype=torch.int64)", "i.mean()", "m.mean(0)", "i.std()", "i.var(0)", "a.std(3)", "a.prod(2)",
        "a.max(2)", "a.max(0, out=a)", "torch.max(c)", "c.amax()", "e.max()", "e.max(0)", "e.argmax(0)", "e.argmin()",
        "e.amax(0)", "e.amin()", "torch.aminmax(e, dim=0)", "torch.aminmax(a, dim=4)", "a.argmax(2)", "c.argmax()",
        "e.median(0)", "c.median()", "a.median(2)", "a.mode(3)", "e.mode(0)", "a.kthvalue(4)", "a.kthvalue(0)",
        "a.kthvalue(1, 2)", "a.quantile(2.)", "a.quantile(0.5, 3)", "i.quantile(0.5)", "a.quantile(d)",
        "a.quantile(0.5, interpolation='no')", "torch.zeros(0).quantile(0.5)", "a.quantile(torch.tensor([-1., 0.5]))",
        "a.norm('x')", "i.norm()", "a.norm(p='nuc', dim=0)", "a.norm(2, 5)", "a.logsumexp(2)", "a.logsumexp('x')",
        "a.all(2)", "a.any(-3)", "a.cumsum(2)", "a.cumsum()", "a.cumprod('x')", "i.cumsum_(3)", "a.cummax(2)",
        "c.cummax(0)", "a.logcumsumexp(2)", "i.logcumsumexp(0)", "a.nansum(2)", "c.nansum()", "a.nanmean(4)",
        "i.nanmean()", "a.count_nonzero(2)", "a.diff(n=-1)", "a.diff(dim=2)", "s.diff()", "a.diff(prepend=b)",
        "torch.trapezoid(a, b)", "torch.cumulative_trapezoid(a, dim=3)", "torch.gradient(v[:1])",
        "torch.gradient(a, dim=3)", "torch.gradient(a, spacing=[1., 2., 3.])", "torch.cov(x3)", "torch.cov(a, correction=0.5)",
        "torch.cov(a, fweights=a[0])", "torch.cov(a, aweights=v4)", "torch.corrcoef(x3)", "torch.var_mean(i)",
        "torch.std_mean(a, 7)", "a.sum(0, out=i)", "a.sum(0, dtype=torch.float64, out=a)", "a.mean(0, out=i)",
        "torch.histc(a, bins=0)", "torch.histc(a, min=2, max=1)", "torch.histc(i)", "torch.histogram(a, -1)",
        "torch.histogram(a, d[0])", "torch.histogramdd(v, 3)", "torch.bincount(a)", "torch.bincount(-idx)",
        "torch.bincount(i)", "torch.bincount(idx, weights=v)", "torch.bincount(idx, minlength=-1)",
        "torch.renorm(a, 2, 4, 1)", "torch.renorm(a, -1, 0, 1)", "torch.renorm(a, 2, 0, -1)", "torch.renorm(v, 2, 0, 1)",
        "torch.dist(a, b)", "torch.dist(i, i)", "torch.cdist(a, b)", "torch.cdist(v, v)", "torch.cdist(a, a, p=-1)",
        "torch.pdist(v)", "torch.pdist(a, p=-1)", "torch.logaddexp(i, i)",
    ],
    "sorting": [
        "a.sort(2)", "c.sort()", "a.sort(descending='x')", "a.argsort(3)", "a.topk(4)", "a.topk(-1)", "a.topk(2, 3)",
        "c.topk(1)", "s.topk(2)", "torch.msort(c)", "torch.searchsorted(a, b)", 
        "torch.searchsorted(v, a, side='up')", "torch.searchsorted(v, a, side='left', right=True)",
        "torch.searchsorted(v, a, sorter=v)", "torch.searchsorted(v, a, sorter=idx)", "torch.searchsorted(s, v)",
        "torch.bucketize(a, a)", "torch.unique(a, dim=3)", "torch.unique_consecutive(a, dim=5)", "torch.unique(c)",
        "torch.sort(a, out=(a, a))", "torch.topk(a, 2, out=(a, i, i))", "torch.kthvalue(c, 1)",
    ],
    "products": [
        "a @ a", "a @ v4", "v @ v4", "s @ a", "a @ s", "a @ i", "a @ d", "torch.mm(a, a)", "torch.mm(v, a)", "torch.mm(a, 2)",
        "torch.mm(a, b, out=i)", "torch.mm(a, meta)", "torch.bmm(a, b)", "torch.bmm(x3, x3)", "torch.bmm(x3, b)",
        "torch.mv(a, v4)", "torch.mv(v, a)", "torch.dot(v, v4)", "torch.dot(a, a)", "torch.dot(v, idx)", "torch.vdot(v, v4)",
        "torch.addmm(a, a, a)", "torch.addmm(q, a, b)", "torch.addmm(i, i, i)", "torch.addmm(a, b, b)", "torch.addmv(v, a, v)",
        "torch.addbmm(a, x3, x3)", "torch.baddbmm(a, x3, x3)", "torch.addr(a, v, v)", "torch.outer(a, v)", "torch.ger(v, a)",
        "torch.inner(a, v4)", "torch.tensordot(a, b, dims=3)", "torch.tensordot(a, b, dims=([0], [0]))",
        "torch.tensordot(a, b, dims=([1], [0, 1]))", "torch.tensordot(a, a, dims=-1)", "torch.einsum('ij,jk', a, a)",
        "torch.einsum('ij', a, a)", "torch.einsum('ijk', a)", "torch.einsum('ij->ijj', a)", "torch.einsum('i1', a)",
        "torch.einsum('ij->k', a)", "torch.einsum('ij')", "torch.einsum('...i,ij->...', a, b[:2])", "torch.chain_matmul(a, a)",
        "torch.kron(a, 'x')", "torch.cross(a, b)", "torch.cross(a, a, dim=0)", "torch.trace(x3)",
        "torch.matmul(a, b, out=i)", "torch.baddbmm(x3, x3, x3)", "torch.block_diag(x3)", "torch.cartesian_prod(a)",
        "torch.combinations(a)", "torch.combinations(v, r=-1)", "torch.vander(a)", "torch.vander(v, N=-2)",
    ],
    "linalg": [
        "torch.linalg.inv(a)", "torch.linalg.inv(i)", "torch.linalg.inv(q * 0)", "torch.linalg.det(a)", "torch.linalg.det(v)",
        "torch.linalg.slogdet(a)", "torch.linalg.solve(a, v)", "torch.linalg.solve(q, v4)", "torch.linalg.solve(q * 0, v)",
        "torch.linalg.solve(q, d[0])", "torch.linalg.cholesky(a)", "torch.linalg.cholesky(-q)", "torch.linalg.cholesky(h)",
        "torch.linalg.qr(v)", "torch.linalg.qr(a, mode='full')", "torch.linalg.svd(v)", "torch.linalg.svd(i)",
        "torch.linalg.svd(a, driver='gesvd')", "torch.linalg.svdvals(v)", "torch.linalg.eig(a)", "torch.linalg.eig(q * float('nan'))",
        "torch.linalg.eigh(a)", "torch.linalg.eigh(q, UPLO='X')", "torch.linalg.eigvals(v)", "torch.linalg.eigvalsh(a)",
        "torch.linalg.lstsq(a, v)", "torch.linalg.lstsq(a, a, driver='best')", "torch.linalg.lu(v)", "torch.linalg.lu_factor(v)",
        "torch.linalg.lu_solve(q, idx, q)", "torch.linalg.ldl_factor(a)", "torch.linalg.matrix_exp(a)",
        "torch.linalg.matrix_norm(v)", "torch.linalg.matrix_norm(a, 'x')", "torch.linalg.matrix_norm(a, 3)",
        "torch.linalg.matrix_norm(a, dim=(0, 0))", "torch.linalg.matrix_power(a, 2)", "torch.linalg.matrix_power(q * 0, -1)",
        "torch.linalg.matrix_rank(v)", "torch.linalg.multi_dot([a])", "torch.linalg.multi_dot([a, a])",
        "torch.linalg.multi_dot([a, x3])", "torch.linalg.norm(a, 'x')", "torch.linalg.norm(x3, 'fro')", "torch.linalg.norm(i)",
        "torch.linalg.vector_norm(i)", "torch.linalg.vector_norm(a, 2, 3)", "torch.linalg.vector_norm(e, float('inf'), 0)",
        "torch.linalg.pinv(v)", "torch.linalg.cond(v)", "torch.linalg.cond(a, 'x')", "torch.linalg.cross(b, b)",
        "torch.linalg.diagonal(v)", "torch.linalg.householder_product(v, v)", "torch.linalg.householder_product(a, v)",
        "torch.linalg.solve_triangular(a, a, upper=True)", "torch.linalg.solve_triangular(q, q)",
        "torch.linalg.tensorinv(a)", "torch.linalg.tensorinv(q, ind=0)", "torch.linalg.tensorsolve(a, v4)", "torch.linalg.vander(s)",
        "torch.linalg.vecdot(v, v4)", "torch.cholesky_solve(a, q)", "torch.cholesky_inverse(a)", "torch.lu_unpack(q, v)",
        "torch.triangular_solve(a, q)", "torch.ormqr(a, v, v)", "torch.geqrf(v)", "torch.logdet(a)", "torch.matrix_power(a, 2)",
        "torch.linalg.inv(q, out=i)", "torch.linalg.eigh(q, out=(q,))",
    ],
    "fft": [
        "torch.fft.fft(a, dim=2)", "torch.fft.fft(a, n=0)", "torch.fft.fft(a, norm='x')", "torch.fft.fft(e, dim=0)",
        "torch.fft.fft(h)", "torch.fft.rfft(c)", "torch.fft.irfft(a, n=0)", "torch.fft.ihfft(c)", "torch.fft.fft2(v)",
        "torch.fft.fft2(a, s=(2, 2, 2))", "torch.fft.fftn(a, dim=(0, 0))", "torch.fft.fftn(a, s=(2,), dim=(0, 1))",
        "torch.fft.fftn(a, s=(1, 2, 3))", "torch.fft.fftn(a, s=(0, 2))", "torch.fft.rfftn(c)", "torch.fft.fft(a, out=a)",
        "torch.fft.irfft(c, out=c)", "torch.fft.fftfreq('x')", "torch.fft.fftfreq(4, dtype=torch.int64)",
        "torch.fft.fftshift(a, dim=4)", "torch.fft.fft(s)", "torch.fft.hfft(s)", "torch.stft(a, 4)",
        "torch.stft(x3, 4, return_complex=True)",
        "torch.stft(v, 2, hop_length=0, return_complex=True)", "torch.stft(v, 2, window=v, return_complex=True)",
        "torch.istft(a, 4)", "torch.istft(c, 4)", "torch.hann_window(-1)", "torch.hann_window(3, dtype=torch.int64)",
        "torch.hamming_window(4, layout='x')", "torch.kaiser_window(-2)", "torch.signal.windows.hann(-1)",
        "torch.signal.windows.gaussian(3, std=0)", "torch.signal.windows.general_cosine(3, a=[])",
        "torch.signal.windows.hann(3, dtype=torch.int64)", "torch.signal.windows.cosine(3, dtype=torch.complex64)",
    ],
    "special": [
        "torch.special.expit('x')", "torch.special.polygamma(-1, a)", "torch.special.multigammaln(a, -1)",
        "torch.special.xlogy(a, b)", "torch.special.xlog1py(c, c)",
        "torch.special.zeta(c, c)", "torch.special.zeta(a, b)", "torch.special.erf(c)", "torch.special.erfinv(c)",
        "torch.special.entr(c)", "torch.special.ndtri(c)", "torch.special.log_ndtr(c)", "torch.special.i0(c)", "torch.special.i1e(c)",
        "torch.special.bessel_j0(c)", "torch.special.digamma(c)", "torch.special.gammaln(c)", "torch.special.gammainc(a, b)",
        "torch.special.gammaincc(c, c)", "torch.special.logsumexp(a, 4)", "torch.special.softmax(a, 4)",
        "torch.special.log_softmax(a, 'x')", "torch.special.round(c)", "torch.special.sinc('x')",
        "torch.special.chebyshev_polynomial_t(c, 2)", "torch.special.erf(a, out=i)", "torch.special.exp2()",
        "torch.special.logit(c)", "torch.igamma(i, i)",
    ],
    "activation": [
        "F.softmax(a, 2)", "F.softmax(i, 0)", "F.softmax(c, 0)", "F.log_softmax(a, -3)", "F.log_softmax(i, 1)", "F.softmin(a, 5)",
        "F.gelu(a, approximate='x')", "F.gelu(i)", "F.gelu(c)", "F.relu(c)", "F.relu6(c)", "F.leaky_relu(i)", "F.leaky_relu(c, 0.1)",
        "F.elu(i)", "F.selu(i)", "F.celu(a, alpha=0)", "F.celu(i)", "F.hardtanh(a, 1., -1.)", "F.hardtanh(m)", "F.softplus(i)",
        "F.softplus(c)", "F.softshrink(a, -1.)", "F.softshrink(i)", "F.hardshrink(i)", "F.hardsigmoid(i)", "F.hardswish(i)",
        "F.mish(i)", "F.silu(i)", "F.logsigmoid(i)", "F.prelu(a, v4)", "F.prelu(a, a)", "F.prelu(a, d[0])", "F.prelu(s, v)",
        "F.glu(v)", "F.glu(a, 5)", "F.glu(s)", "F.threshold(c, 0, 0)", "F.rrelu(a, 1., 0.5)", "F.gumbel_softmax(a, dim=4)",
        "F.normalize(a, dim=3)", "F.dropout(a, 1.5)", "F.dropout(a, -0.1)", "F.dropout(i, 0.5)", "F.alpha_dropout(a, 2.)",
        "F.dropout2d(a, -1.)", "F.feature_alpha_dropout(a, 3.)", "F.dropout1d(v)", "F.linear(a, b)", "F.linear(a, i)",
        "F.linear(a, q, v4)", "F.linear(v, v4)", "F.bilinear(a, a, x3)", "F.bilinear(a, b, x3)", "F.cosine_similarity(a, b)",
        "F.cosine_similarity(i, i)", "F.pairwise_distance(a, b)", "F.one_hot(a)", "F.one_hot(i, 2)", "F.one_hot(-idx)",
        "F.one_hot(idx, 0)",
    ],
    "normalisation": [
        "F.layer_norm(a, (2,))", "F.layer_norm(a, (3, 3))", "F.layer_norm(a, ())", "F.layer_norm(a, (3,), v4)",
        "F.layer_norm(a, (3,), v, v4)", "F.layer_norm(a, 3)", "F.layer_norm(i, (3,))", "F.rms_norm(a, (2,))",
        "F.rms_norm(a, (3,), v4)", "F.group_norm(x4, 2)", "F.group_norm(x4, 0)", "F.group_norm(v, 1)", "F.group_norm(x4, 3, v4)",
        "F.group_norm(x4, 3, v, v4)", "F.batch_norm(x4, None, None)", "F.batch_norm(x4, v4, v)", "F.batch_norm(x4, v, v4)",
        "F.batch_norm(x4, v, v, v4)", "F.batch_norm(x4, v, v, v, v4)", "F.batch_norm(v, None, None, training=True)",
        "F.batch_norm(a[:1], None, None, training=True)", "F.batch_norm(i, None, None, training=True)",
        "F.batch_norm(x4, v, v, training='x', eps='y')", "F.instance_norm(a)", "F.instance_norm(x3[:, :, :1])",
        "F.instance_norm(x3, use_input_stats=False)", "F.local_response_norm(a, 2)", "F.local_response_norm(x3, 0)",
        "torch.native_layer_norm(a, (2,), None, None, 1e-5)", "torch.batch_norm(x4, None, None, None, None, False, 0.1, 1e-5, True)",
        "F.normalize('x')",
    ],
    "convolution": [
        "F.conv2d(x4, w4[:, :2])", "F.conv2d(a, w4)", "F.conv2d(x4, x3)", "F.conv2d(x4, w4.double())", "F.conv2d(x4, w4, v)",
        "F.conv2d(x4, w4, stride=0)", "F.conv2d(x4, w4, stride=(1, 2, 3))", "F.conv2d(x4, w4, padding=-1)",
        "F.conv2d(x4, w4, padding='full')", "F.conv2d(x4, w4, stride=2, padding='same')", "F.conv2d(x4, w4, dilation=0)",
        "F.conv2d(x4, w4, groups=2)", "F.conv2d(x4, w4, groups=0)", "F.conv2d(x4[:, :, :2, :2], w4)", "F.conv2d(x4, w4[:, :, :0])",
        "F.conv2d(x4, w4[:0])", "F.conv2d(x4, w4, dilation=9)", 
        "F.conv2d(x4, w4, v4[None])", "F.conv2d(x4, w4, v4.double())", "F.conv1d(a, x3)", "F.conv1d(x4, x3)",
        "F.conv1d(x3, x3[:, :, :0])", "F.conv1d(x3, x3, groups=-1)", "F.conv3d(x4, w4)", "F.conv3d(x4, w4[:, None])",
        "F.conv_transpose2d(x4, w4)", "F.conv_transpose2d(x4, w4[:3, :0])",
        "F.conv_transpose2d(x4, w4[:3], output_padding=1)", "F.conv_transpose2d(x4, w4[:3], stride=0)",
        "F.conv_transpose2d(x4, w4[:3], padding=9)", "F.conv_transpose2d(x4, w4[:3], groups=2)", "F.conv_transpose1d(x4, x3)",
        "F.conv_transpose2d(x4, w4[:3], output_padding=-1)", "F.conv2d(x4.long(), w4)", "F.conv2d(x4, w4, bias='x')",
        "F.conv2d(x4)", "F.unfold(a, 2)", "F.unfold(x4, 9)", "F.unfold(x4, 2, stride=0)", "F.unfold(x4, 0)", "F.unfold(x4, 2, dilation=0)",
        "F.unfold(x4, 2, padding=-1)", "F.unfold(x4, (2, 2, 2))", "F.fold(x3, (4, 4), 2)", "F.fold(x3, (4, 4), 3)", "F.fold(a, (4, 4), 2)",
        "F.fold(x4, (4, 4), 2)", "F.fold(x3, (0, 4), 1)", "torch.conv_tbc(x3, x3, v)", "torch.conv_tbc(a, x3, v)",
    ],
    "pooling": [
        "F.max_pool2d(a, 2)", "F.max_pool2d(x4, 0)", "F.max_pool2d(x4, 9)", "F.max_pool2d(x4, 2, stride=0)", "F.max_pool2d(x4, 2, padding=2)",
        "F.max_pool2d(x4, 2, padding=-1)", "F.max_pool2d(x4, 2, dilation=0)", "F.max_pool2d(x4, (2, 2, 2))", "F.max_pool2d(c[None], 2)",
        "F.max_pool1d(v, 2)", "F.max_pool1d(x3, 9)", "F.max_pool1d(x3, 2, padding=2)", "F.max_pool3d(x4[0], 2)", "F.max_pool3d(x4, 3, padding=2)",
        "F.max_pool2d(x4[:, :0], 2)", "F.max_pool2d(x4[:, :, :0], 2)", "F.max_pool2d(m[None], 1)", "F.avg_pool2d(a, 2)", "F.avg_pool2d(x4, 9)",
        "F.avg_pool2d(x4, 2, divisor_override=0)", "F.avg_pool2d(x4, 2, padding=2)", "F.avg_pool2d(x4, 2, stride=0)", 
        "F.avg_pool1d(v, 2)", "F.avg_pool1d(x3, 9)", "F.avg_pool3d(x3, 2)", "F.adaptive_avg_pool2d(a, 2)", "F.adaptive_avg_pool2d(x4, -1)",
        "F.adaptive_avg_pool2d(x4, (1, 2, 3))", "F.adaptive_avg_pool1d(v, 2)", "F.adaptive_avg_pool1d(x3, -2)", "F.adaptive_max_pool2d(a, 2)",
        "F.adaptive_max_pool2d(x4, (-1, 2))", "F.adaptive_max_pool1d(x4, 2)", "F.adaptive_max_pool3d(x3, 2)", "F.adaptive_avg_pool3d(x3, 2)",
        "F.adaptive_avg_pool2d(x4[:, :, :0], 2)", "F.lp_pool2d(x4, 2, 9)", "F.fractional_max_pool2d(x4, 2)", "F.fractional_max_pool2d(x4, 2, output_size=9)",
        "F.fractional_max_pool2d(x4, 2, output_ratio=2.)", "F.fractional_max_pool2d(a, 2, output_size=1)", "F.max_unpool2d(x4, x4, 2)",
        "F.max_unpool2d(x4, x4.long()[:1], 2)", "F.max_unpool2d(x4, x4.long() + 999, 2)", "F.max_unpool2d(x4, x4.long(), 2, output_size=(3, 3))",
        "F.max_unpool1d(x4, x4.long(), 2)", "F.max_unpool2d(a, i, 2)",
    ],
    "images": [
        "F.pad(a, (1,))", "F.pad(a, (1, 1, 1, 1, 1, 1))", "F.pad(a, (-3, -1))", "F.pad(a, (1, 1), mode='mirror')", "F.pad(a, (9, 9), mode='reflect')",
        "F.pad(x4, (6, 0, 0, 0), mode='reflect')", "F.pad(x4, (7, 0, 0, 0), mode='circular')", "F.pad(a, (1, 1, 1, 1), mode='reflect')",
        "F.pad(x4, (1, 1), mode='reflect')", "F.pad(x4, (1, 1), mode='reflect', value=1)", "F.pad(v, (1, 1), mode='replicate')",
        "F.pad(x4, (-9, 0, 0, 0), mode='replicate')", "F.interpolate(a, 4)", "F.interpolate(x4)", "F.interpolate(x4, 4, 2.)", "F.interpolate(x4, (4,))",
        "F.interpolate(x4, 4, mode='best')", "F.interpolate(x4, 4, mode='linear')", "F.interpolate(x3, 4, mode='bilinear')",
        "F.interpolate(x4, 4, mode='nearest', align_corners=True)", "F.interpolate(x4, 0)", "F.interpolate(x4, (-1, 2))",
        "F.interpolate(x3, 4, mode='linear', antialias=True)", "F.interpolate(x4, scale_factor=0.01)", "F.interpolate(x4, scale_factor=(1., 2., 3.))",
        "F.interpolate(x4.long(), 4, mode='bilinear')", "F.interpolate(x4, size=(3, 3), recompute_scale_factor=True)", "F.grid_sample(a, a)",
        "F.grid_sample(x4, x4)", "F.grid_sample(x4, torch.zeros(1, 2, 2, 2))", "F.grid_sample(x4, torch.zeros(2, 2, 2, 2), mode='x')",
        "F.grid_sample(x4, torch.zeros(2, 2, 2, 2), padding_mode='x')", "F.grid_sample(x4, torch.zeros(2, 2, 2, 2).double())",
        "F.grid_sample(x4[:, :, :0], torch.zeros(2, 2, 2, 2))", "F.grid_sample(x4[:, :, None], torch.zeros(2, 2, 2, 2, 3), mode='bicubic')",
        "F.affine_grid(a, (2, 1, 3, 3))", "F.affine_grid(torch.zeros(1, 2, 3), (2, 1, 3, 3))", "F.affine_grid(torch.zeros(2, 2, 3), (2, 1))",
        "F.affine_grid(torch.zeros(2, 2, 3), (2, 1, 0, 3))", "F.affine_grid(torch.zeros(2, 2, 3).long(), (2, 1, 3, 3))",
        "F.pixel_shuffle(a, 2)", "F.pixel_shuffle(x4, 2)", "F.pixel_shuffle(x4, 0)", "F.pixel_unshuffle(x4, 4)", "F.pixel_unshuffle(x4, -1)",
        "F.pixel_unshuffle(a, 2)", "F.channel_shuffle(a, 2)", "torch.channel_shuffle(x4, 2)", "F.channel_shuffle(x4, 0)",
    ],
    "losses": [
        "F.cross_entropy(a, idx.float())", "F.cross_entropy(a, i)", "F.cross_entropy(a, torch.tensor([0, 5]))", "F.cross_entropy(a, torch.tensor([0, -1]))",
        "F.cross_entropy(a, idx, weight=v4)", "F.cross_entropy(a, idx, reduction='best')", "F.cross_entropy(a, idx, label_smoothing=2.)",
        "F.cross_entropy(a, idx[:1])", "F.cross_entropy(a, b)", "F.cross_entropy(a, idx.to('meta'))", "F.cross_entropy(a, idx.int())",
        "F.cross_entropy(a, idx, weight=d[0])", "F.nll_loss(a, idx, weight=v4)", "F.nll_loss(a, idx, reduction='x')", "F.nll_loss(a, v)", "F.nll_loss(a, torch.tensor([0, 3]))",
        "F.nll_loss(x4, idx)", "F.nll_loss(s, idx)", "F.nll_loss(v, idx)", "F.mse_loss(a, b)", "F.mse_loss(a, a, reduction='x')", "F.mse_loss(a, a, weight=b)",
        "F.mse_loss(i, i)", "F.l1_loss(a, b)", "F.l1_loss(a, a, reduction='x')", "F.smooth_l1_loss(a, a, beta=-1)", "F.smooth_l1_loss(a, b)", "F.huber_loss(a, a, delta=0)",
        "F.huber_loss(a, a, reduction='x')", "F.kl_div(a, b)", "F.kl_div(a, a, reduction='x')", "F.binary_cross_entropy(a, a[:1])", "F.binary_cross_entropy(a, a)",
        "F.binary_cross_entropy(a / 9, a / 9, weight=b)", "F.binary_cross_entropy(a / 9, a / 9, reduction='x')", "F.binary_cross_entropy(a / 9, d / 9)",
        "F.binary_cross_entropy_with_logits(a, b)", "F.binary_cross_entropy_with_logits(a, a, pos_weight=v4)", "F.hinge_embedding_loss(a, b)",
        "F.margin_ranking_loss(a, b, a)", "F.margin_ranking_loss(a, v, a)", "F.multi_margin_loss(a, idx, p=3)", "F.multi_margin_loss(a, idx[:1])", "F.multi_margin_loss(a, torch.tensor([0, 9]))",
        "F.multi_margin_loss(a, idx, weight=v4)", "F.multilabel_margin_loss(a, idx)", "F.multilabel_margin_loss(a, i + 9)", "F.multilabel_soft_margin_loss(a, b)",
        "F.soft_margin_loss(a, b)", "F.soft_margin_loss(a, a, reduction='x')", "F.triplet_margin_loss(a, a, v)", "F.triplet_margin_loss(a, a, a, margin=-1)",
        "F.triplet_margin_with_distance_loss(a, a, a, margin=-1)", "F.cosine_embedding_loss(a, a, i)", "F.cosine_embedding_loss(a, b, idx)", "F.cosine_embedding_loss(a, a, idx, reduction='x')",
        "F.poisson_nll_loss(a, a, reduction='x')", "F.poisson_nll_loss(a, b)", "F.gaussian_nll_loss(a, a, -a - 1)", "F.gaussian_nll_loss(a, a, v4)", "F.gaussian_nll_loss(a, a, a, reduction='x')",
        "F.ctc_loss(x3, i, idx, idx, reduction='x')", "F.ctc_loss(a, i, idx, idx)", "F.ctc_loss(x3.log_softmax(2), i[:, :2], torch.tensor([9, 2, 2]), torch.tensor([1, 1, 1]))",
        "F.ctc_loss(x3.log_softmax(2), torch.ones(3, 2).long(), torch.tensor([2, 2, 2]), torch.tensor([1, 9, 1]))",
        "F.ctc_loss(x3.log_softmax(2), torch.ones(3, 2).long(), (2, 2), (1, 1, 1))", "F.ctc_loss(x3.log_softmax(2), torch.ones(3, 2).long(), (2, 2, 2), (1, 1, 1), blank=7)",
        "F.ctc_loss(x3.log_softmax(2).long(), torch.ones(3, 2).long(), (2, 2, 2), (1, 1, 1))",
    ],
    "embedding and attention": [
        "F.embedding(a, q)", "F.embedding(idx + 5, q)", "F.embedding(-idx, q)", "F.embedding(idx, q, padding_idx=3)", "F.embedding(idx, q, padding_idx=-4)", "F.embedding(idx, v)",
        "F.embedding(idx, i, max_norm=1.)", "F.embedding(idx, q, max_norm='x')", "F.embedding_bag(a, q)", "F.embedding_bag(i, q, idx)", "F.embedding_bag(idx, q)", "F.embedding_bag(idx, q, idx, mode='best')",
        "F.embedding_bag(idx, q, idx + 1)", "F.embedding_bag(idx, q, torch.tensor([0, 9]))", "F.embedding_bag(idx + 9, q, torch.tensor([0]))", "F.embedding_bag(idx, q, torch.tensor([0]), per_sample_weights=v)",
        "F.embedding_bag(idx, q, torch.tensor([0]), mode='mean', per_sample_weights=v[:2])", "F.embedding_bag(x3.long(), q)", "F.embedding_bag(idx, q, a)",
        "F.scaled_dot_product_attention(a, b, b)", "F.scaled_dot_product_attention(x3, x3, v)", "F.scaled_dot_product_attention(v, v, v)", "F.scaled_dot_product_attention(x3, x3, x3, q, is_causal=True)",
        "F.scaled_dot_product_attention(x3, x3, x3, a)", "F.scaled_dot_product_attention(x3, x3.double(), x3)", "F.scaled_dot_product_attention(x3, x3, x3, i)", "F.scaled_dot_product_attention(x3, x3, x3, dropout_p=2.)",
        "F.scaled_dot_product_attention(x3, x3[:, :, :2], x3)", "F.scaled_dot_product_attention(x4, x4[:, :2], x4[:, :2], enable_gqa=True)",
        "torch.nn.MultiheadAttention(4, 3)", "torch.nn.MultiheadAttention(4, 2)(a, a, a)", "torch.nn.MultiheadAttention(4, 2)(x3, x3, x3[:1])", "torch.nn.MultiheadAttention(4, 2)(x3, x3, x3, attn_mask=i)",
        "torch.nn.MultiheadAttention(4, 2)(x3, x3, x3, key_padding_mask=m[:, :1])", "torch.nn.MultiheadAttention(0, 0)",
    ],
    "recurrent": [
        "torch.nn.LSTM(4, 5)(a)", "torch.nn.LSTM(4, 5)(s)", "torch.nn.LSTM(4, 5)(x3, (x3, x3))", "torch.nn.LSTM(4, 5)(x3, x3)", "torch.nn.GRU(3, 5)(x3)", "torch.nn.GRU(4, 5)(x3, x3)", "torch.nn.RNN(4, 5, nonlinearity='x')",
        "torch.nn.RNN(4, 0)", "torch.nn.RNN(4, 5, num_layers=0)", "torch.nn.LSTM(4, 5, dropout=2)", "torch.nn.LSTM(4, 5, proj_size=5)", "torch.nn.LSTM(4, 5, proj_size=-1)", "torch.nn.GRU(4, 5, proj_size=1)",
        "torch.nn.LSTM(4, 5)(x3.double())", "torch.nn.LSTMCell(3, 5)(x3)", "torch.nn.LSTMCell(4, 5)(a)", "torch.nn.LSTMCell(3, 5)(a, (a, a))", "torch.nn.GRUCell(3, 5)(a, a)", "torch.nn.GRUCell(3, 5)(a, v)", "torch.nn.RNNCell(4, 5)(a)",
        "torch.nn.RNNCell(3, 5, nonlinearity='x')(a)", "torch.nn.LSTM('x', 5)", "torch.nn.GRU(4, 5)(x3, torch.zeros(1, 2, 5))", "torch.nn.LSTM(4, 5, bidirectional=True)(x3, (torch.zeros(1, 3, 5), torch.zeros(1, 3, 5)))",
        "torch.nn.utils.rnn.pack_padded_sequence(x3, [2, 2, 0])", "torch.nn.utils.rnn.pack_padded_sequence(x3, [1, 2, 2])", "torch.nn.utils.rnn.pack_padded_sequence(x3, [2, 2])", 
        "torch.nn.utils.rnn.pad_sequence(3)", "torch.nn.utils.rnn.pad_sequence([v, v4], padding_side='up')", "torch.nn.utils.rnn.pack_sequence([v, v4])", "torch.nn.utils.rnn.pad_packed_sequence(torch.nn.utils.rnn.pack_padded_sequence(x3, [2, 2, 1]), total_length=1)",
        "torch.lstm_cell(a, (a, a), a, a)", "torch.gru(x3, x3, [a, a], True, 1, 0., False, False, False)",
    ],
    "modules": [
        "torch.nn.Linear(3, 2)(b)", "torch.nn.Linear(3, 2)(i)", "torch.nn.Linear('x', 2)", "torch.nn.Conv2d(3, 4, 3)(a)", "torch.nn.Conv2d(3, 4, 3, groups=2)", "torch.nn.Conv2d(4, 3, 3, groups=2)", "torch.nn.Conv2d(3, 4, 3, padding='x')",
        "torch.nn.Conv2d(3, 4, 3, padding='same', stride=2)", "torch.nn.Conv2d(3, 4, 3, padding_mode='x')", "torch.nn.BatchNorm2d(3)(a)", "torch.nn.BatchNorm2d(2)(x4)", "torch.nn.BatchNorm1d(3)(x4)", "torch.nn.LayerNorm(4)(a)",
        "torch.nn.GroupNorm(2, 3)", "torch.nn.Dropout(2)", "torch.nn.Dropout(-1)", "torch.nn.Embedding(3, 2, padding_idx=5)", "torch.nn.Embedding(3, 2)(a)", "torch.nn.Embedding(3, 2)(torch.tensor(7))", "torch.nn.Softmax(5)(a)",
        "torch.nn.Flatten(3)(a)", "torch.nn.Unflatten(1, (2, 2))(a)", "torch.nn.CrossEntropyLoss()(a, v)", "torch.nn.CrossEntropyLoss(reduction='x')(a, idx)", "torch.nn.CTCLoss()(a, a, a)", "torch.nn.Upsample(scale_factor=2, mode='x')(x4)",
        "torch.nn.ZeroPad2d((1, 1, 1))(x4)", "torch.nn.ReflectionPad2d(9)(x4)", "torch.nn.PReLU(2)(a)", "torch.nn.Bilinear(0, 1, 2)", "torch.nn.Bilinear(3, 3, 2)(a, b)", "torch.nn.Sequential(3)", "torch.nn.ModuleList([a])", "torch.nn.ParameterList([3])(a)",
        "torch.nn.Parameter(i)", "torch.nn.InstanceNorm2d(3)(a)", "torch.nn.InstanceNorm1d(5, affine=True)(x3)", "torch.nn.TransformerEncoderLayer(4, 2, activation='x')", "torch.nn.PixelShuffle(2)(a)", "torch.nn.MaxPool2d(2)(a)", "torch.nn.AdaptiveAvgPool2d(2)(a)",
        "torch.nn.Identity()()", "torch.nn.Module()(a)", "torch.nn.init.xavier_uniform_(v)", "torch.nn.init.kaiming_normal_(v)", "torch.nn.init.orthogonal_(v)", "torch.nn.init.calculate_gain('x')", "torch.nn.init.sparse_(v, 0.1)", "torch.nn.init.eye_(v)", "torch.nn.init.dirac_(a)",
        "torch.nn.init.kaiming_uniform_(a, mode='x')", "torch.nn.utils.clip_grad_norm_([g], 1., norm_type='x')", "torch.nn.utils.parameters_to_vector([a, meta])", "torch.nn.utils.vector_to_parameters(3, [a])", "torch.nn.Linear(3, 2).load_state_dict({'weight': b})",
        "torch.nn.Linear(3, 2).load_state_dict({'weight': a, 'bias': v4})", "torch.nn.Linear(3, 2).register_parameter('a.b', None)", "torch.nn.Linear(3, 2).register_buffer('weight', a)", "torch.nn.Linear(3, 2).get_submodule('x')", "torch.nn.Linear(3, 2).to(torch.int64)",
    ],
    "indexing": [
        "a[2]", "a[-3]", "a[0, 3]", "a[0, 0, 0]", "a[idx, idx, idx]", "a[a]", "a[m[:1]]", "a[torch.ones(5).bool()]", "a['x']", "a[1.5]", "a[idx + 2]", "a[-idx - 3]", "a[[0, 1], [0, 1, 2]]", "a[::-1]", "a[::0]", "s[0]", "s[:]", 
        "a[0] if a[3] else 0", "set_(a, (2,), 0)", "set_(a, (0, 5), 0)", "set_(a, 0, v4)", "set_(a, (slice(None), 0), v)", "set_(a, m, v4)", "set_(a, idx, b)", "set_(i, 0, 'x')", "set_(a, slice(None), x3)", "set_(a, idx + 4, 1)", "set_(g, 0, 1.)", "set_(i, 0, 1j)",
        "torch.index_select(a, 2, idx)", "torch.index_select(a, 0, idx + 2)", "torch.index_select(a, 0, v)", "torch.index_select(a, 0, i)", "torch.index_select(a, 0, -idx - 1)", "torch.gather(a, 1, v.long())", "torch.gather(a, 1, a)", "torch.gather(a, 1, i + 3)", "torch.gather(a, 2, i)", "torch.gather(a, 0, x3.long())",
        "torch.gather(a, 1, b.long())", "torch.take(a, v)", "torch.take(a, idx + 6)", "torch.take(e, idx)", "torch.take_along_dim(a, v.long(), 0)", "torch.take_along_dim(a, a, 0)", "torch.masked_select(a, a)", "torch.masked_select(a, torch.ones(4).bool())",
        "torch.nonzero(meta)", "torch.argwhere('x')", "torch.select(a, 2, 0)", "torch.select(a, 0, 2)", "torch.select(s, 0, 0)", "a.narrow(0, 1, 2)", "a.narrow(0, 0, -1)", "a.narrow(0, -3, 1)", "a.narrow(2, 0, 1)", "a.unfold(2, 1, 1)", "a.unfold(1, 4, 1)", "a.unfold(1, 1, 0)", "a.unfold(1, -1, 1)",
    ],
    "scatter": [
        "a.scatter(0, i, b)", "a.scatter(2, i, a)", "a.scatter(1, i + 3, a)", "a.scatter(1, a, a)", "a.scatter(1, i, d)", "a.scatter(1, i, a, reduce='min')", "a.scatter(1, v.long(), a)", "a.scatter(1, i - 9, 1.)", "a.scatter(1, x3.long(), x3)", "a.scatter_(1, b.long(), 1.)", "a.scatter_add(1, i, v)", "a.scatter_add(1, i, i)", "a.scatter_add(1, i + 7, a)",
        "a.scatter_add_(3, i, a)", "a.scatter_reduce(1, i, a, 'median')", "a.scatter_reduce(1, i, a)", "a.scatter_reduce(1, i, d, 'sum')", "a.scatter_reduce_(1, i + 5, a, 'sum')", "a.index_add(0, idx, a, alpha='x')", "a.index_add(0, idx, v)", "a.index_add(0, idx[:1], a)", "a.index_add(0, idx + 1, a)", "a.index_add(0, v, a)", "a.index_add(2, idx, a)", "a.index_add(0, idx, d)",
        "a.index_add(0, i, a)", "a.index_add_(0, idx + 7, a)", "a.index_copy(0, idx, b)", "a.index_copy(0, idx, d)", "a.index_copy(0, idx + 1, a)", "a.index_copy(0, v, a)", "a.index_copy_(0, idx, v)", "a.index_fill(0, idx, a)", "a.index_fill(0, idx + 1, 0.)", "a.index_fill(3, idx, 0.)", "a.index_fill(0, v, 0.)", "a.index_fill(0, idx, 1j)", "a.index_fill_(0, idx + 8, 1.)",
        "a.index_reduce(0, idx, a, 'x')", "a.index_reduce(0, idx, v, 'prod')", "a.index_reduce(0, idx + 3, a, 'prod')", "a.index_reduce(0, idx, d, 'prod')", "a.index_put((idx, idx, idx), s)", "a.index_put((idx + 5,), s)", "a.index_put((v,), s)", "a.index_put((idx,), d)", "a.index_put((idx,), b)", "a.index_put_((idx, idx + 9), s)", "a.put(v, v)", "a.put(idx, v)", "a.put(idx + 9, v[:2])", "a.put_(idx, d[0, :2])",
        "a.masked_fill(a, 0)", "a.masked_fill(torch.ones(4).bool(), 0)", "a.masked_fill(m, v)", "i.masked_fill(m, 1j)", "a.masked_fill_(x3 > 0, 0)", "a.masked_fill_(m, 1j)", "a.masked_scatter(a, a)", "a.masked_scatter(m, v[:1])", "a.masked_scatter(m, d)", "a.masked_scatter_(torch.ones(4).bool(), a)", "torch.diagonal_scatter(a, a)", "torch.select_scatter(a, a, 0, 0)", "torch.select_scatter(a, v, 0, 5)", "torch.slice_scatter(a, v, 0, 0, 1)",
        "torch.slice_scatter(a, a, 3)", "torch.as_strided_scatter(a, v, (2, 2), (1, 1))", "a.fill_(v)", "a.fill_(1j)", "a.fill_('x')", "a.fill_diagonal_(1j)", "v.fill_diagonal_(0)", "a.copy_(b)", "a.copy_('x')", "v.copy_(a)", "torch.index_add(a, 0, idx, a, out=i)",
    ],
    "views": [
        "a.view(7)", "a.view(-1, -1)", "a.view(4, -1)", "a.view(-2, 3)", "a.view(0, -1)", "e.view(-1, 0)", "a.t().view(6)", "a.view(torch.int64)", "a[:, ::2].view(torch.int16)", "a.view('x')", "a.view(1.5)", "a.reshape(7)", "a.reshape(-1, -1)", "a.reshape(2, 3.)", "a.reshape(-5)", "a.expand(3, 3)", "a.expand(3)", "a.expand(-1, 2, 3)", "a.expand(2, -3)", "a.expand_as(b)",
        "a.broadcast_to((3, 3))", "torch.broadcast_tensors(a, b)", "torch.broadcast_shapes((2, 3), (4,))", "torch.broadcast_shapes((-2,), (3,))", "a.transpose(0, 2)", "a.transpose(-3, 0)", "x3.t()", "a.permute(0)", "a.permute(0, 0)", "a.permute(0, 2)", "a.permute(0, 1, 2)", "a.permute('x')", "a.movedim(0, 5)", "a.movedim((0, 0), (0, 1))", "a.movedim((0, 1), (0,))", "a.squeeze(2)", "a.squeeze((0, 0))", "a.unsqueeze(4)",
        "a.unsqueeze(-4)", "a.flatten(1, 0)", "a.flatten(0, 2)", "a.unflatten(1, (2, 2))", "a.unflatten(1, ())", "a.unflatten(5, (1,))", "a.as_strided((2, 2), (1,))", "a.as_strided((9, 9), (9, 1))", "a.as_strided((2,), (-1,))", "a.as_strided((2,), (1,), -1)", "a.as_strided((-1,), (1,))", "a.diagonal(0, 0, 0)", "a.diagonal(0, 0, 2)", "v.diagonal()", "a.diag_embed(0, 0, 0)",
        "x3.diag()", "s.diag()", "a.split(-1)", "a.split(0)", "a.split([1, 3], 1)", "a.split([1, -1, 3], 1)", "a.split(1, 2)", "a.chunk(0)", "a.chunk(2, 3)", "s.chunk(1)", "a.tensor_split(0)", "a.tensor_split(2, 4)", "a.tensor_split(a)", "torch.hsplit(s, 1)", "torch.hsplit(a, 2)", "torch.vsplit(v, 1)", "torch.dsplit(a, 1)", "a.unbind(2)", "s.unbind()", "a.swapaxes(0, 7)", "a.mT.mT.mH.x", "v.mT", "x3.T.H",
        "a.flip(2)", "a.flip((0, 0))", "a.flip('x')", "a.fliplr(3)", "v.fliplr()", "s.flipud()", "a.roll((1, 2), 0)", "a.roll(1, 2)", "a.roll(())", "a.rot90(1, (0, 0))", "a.rot90(1, (0, 5))", "v.rot90()", "a.rot90(1, (0, 1, 2))", "a.tile(-1)", "a.repeat(2)", "a.repeat(-1, 2)", "a.repeat_interleave(-1)", "a.repeat_interleave(v)", "a.repeat_interleave(torch.tensor([1, 2, 3]), dim=0)",
        "a.repeat_interleave(torch.tensor([1, -2]), dim=0)", "a.tril('x')", "v.tril()", "v.triu()", "s.triu_()", "a.contiguous(memory_format=torch.channels_last)", "a.to(memory_format=torch.channels_last)", "a.is_contiguous(memory_format=3)", "g.resize_(1)", "a.set_(i)", "a.view_as(b)", "a.reshape_as(b)", "a.type_as(3)", "a.adjoint().adjoint().view(9)", "x3.adjoint().H", "a.numpy().reshape(7)",
    ],
    "joining": [
        "torch.cat([])", "torch.cat([a, b])", "torch.cat([a, x3])", "torch.cat([a, s])", "torch.cat([a, a], 2)", "torch.cat([a, 3])", "torch.cat(a)", "torch.cat([a, a], out=i)", "torch.cat([a, meta])", "torch.stack([])", "torch.stack([a, b])", "torch.stack([a, a], 4)", "torch.stack([a, 'x'])", "torch.hstack([])", "torch.hstack([a, b.t()])", "torch.vstack([a, b])", "torch.dstack([a, b])", "torch.column_stack([a, b])",
        "torch.meshgrid(a)", "torch.meshgrid(v, v, indexing='x')", "torch.meshgrid(v, d[0])", "torch.meshgrid()", "torch.concat([a, b], dim=1)", "torch.atleast_1d('x')", "torch.unravel_index(idx, (0,))", "torch.unravel_index(v, (2, 3))", "torch.unravel_index(idx, (-1, 3))", "torch.tril_indices(-1, 2)", "torch.triu_indices(2, 2, dtype=torch.float32)",
    ],
    "creation": [
        "torch.zeros(-1)", "torch.zeros(2, -3)", "torch.zeros('x')", "torch.zeros(1.5)", "torch.zeros(2, dtype='float')", "torch.zeros(2, device='gpu')", "torch.zeros(2, device='cpu:x')", "torch.zeros(2, layout='x')", "torch.zeros((2,), dtype=torch.int64, requires_grad=True)", "torch.ones()", "torch.full((2,))", "torch.full((2,), 'x')", "torch.full((2,), 1j, dtype=torch.float32)", "torch.full((-2,), 1)", "torch.empty(3, memory_format=torch.channels_last)",
        "torch.empty(2, -2, 3)", "torch.empty_strided((2, 3), (1,))", "torch.empty_strided((2,), (-1,))", "torch.empty_permuted((2, 3), (0, 0))", "torch.arange(0, 5, 0)", "torch.arange(0, 5, -1)", "torch.arange(5, 0)", "torch.arange(float('nan'))", "torch.arange(0, float('inf'))", "torch.arange('x')", "torch.arange()", "torch.range(0, 1, 0)", "torch.linspace(0, 1)", "torch.linspace(0, 1, -1)", "torch.linspace(v, v, 3)", "torch.linspace(0, 1, 3, dtype=torch.bool)", "torch.logspace(0, 1, -1)",
        "torch.eye(-1)", "torch.eye(2, -1)", "torch.eye(2, dtype='x')", "torch.tensor()", "torch.tensor([[1, 2], [3]])", "torch.tensor(['x'])", "torch.tensor([1, None])", "torch.tensor([1, 'x'])", "torch.tensor([1], dtype='x')", "torch.tensor([1j], dtype=torch.float32)", "torch.tensor([1], dtype=torch.int64, requires_grad=True)", "torch.tensor(2 ** 70)", "torch.tensor([300], dtype=torch.uint8)", "torch.tensor({})", "torch.tensor([a, a])", "torch.as_tensor('x')",
        "torch.from_numpy(3)", "torch.from_numpy(a)", "torch.frombuffer(b'')", "torch.frombuffer(b'abc', dtype=torch.float32)", "torch.frombuffer(bytearray(8), dtype=torch.float32, offset=9)", "torch.zeros_like(3)", "torch.zeros_like(a, dtype='x')", "torch.empty_like('x')", "torch.full_like(a)", "torch.full_like(a, 'x')", "torch.rand_like(i)", "torch.randn_like(i)", "a.new_zeros('x')", "a.new_full((2,), 'x')", "a.new_tensor('x')", "torch.scalar_tensor('x')", "torch.set_default_dtype(torch.int64)", "torch.complex(a, b)", "torch.device('gpu')",
        "torch.device('cpu', 'x')", "torch.finfo(torch.int64)", "torch.iinfo(torch.float32)", "torch.Tensor('x')", "torch.Tensor(-1)", "torch.result_type('x', 'y')", "torch.promote_types(1, 2)", "torch.can_cast(1, 2)", "torch.asarray(a, copy=False, dtype=torch.float64)", "a.to('gpu')", "a.type('x')", "a.cuda(1, 2, 3)", "c.numpy().view('x')", "g.numpy()", "meta.numpy()", "meta.tolist()", "meta.item()", "a.tolist(1)",
    ],
    "random": [
        "torch.rand(-1)", "torch.rand(2, dtype=torch.int64)", "torch.randn(2, dtype=torch.int64)", "torch.randint(5, 5, (2,))", "torch.randint(3, 1, (2,))", "torch.randint(3, (-2,))", "torch.randint(300, (2,), dtype=torch.uint8)", "torch.randint(3)", "torch.randperm(-1)", "torch.randperm(300, dtype=torch.uint8)", "torch.randperm('x')", "torch.normal(a, -a - 1)", "torch.normal(0., -1., (2,))", "torch.normal(a, b)", "torch.bernoulli(a + 5)", "torch.bernoulli(a, p=2.)", "torch.bernoulli(i)",
        "a.bernoulli_(1.5)", "a.bernoulli_(a + 9)", "torch.multinomial(a, 5)", "torch.multinomial(a, 0)", "torch.multinomial(x3, 1)", "torch.multinomial(i, 1)", "torch.multinomial(-a - 1, 1)", "torch.multinomial(a * 0, 1)", "torch.multinomial(v * float('nan'), 1)", "torch.poisson(-a - 1)", "torch.poisson(i)", "a.uniform_(2, 1)", "i.uniform_()", "a.normal_(0, -1)", "i.normal_()", "a.exponential_(0)", "a.exponential_(-1)", "i.exponential_()", "a.geometric_(0)", "a.geometric_(2)", "a.cauchy_(0, 0)",
        "i.cauchy_()", "a.log_normal_(0, -1)", "a.log_normal_(0, 0)", "i.log_normal_()", "a.random_(3, 1)", "a.random_(0)", "m.random_(0, 5)", "torch.rand(2, generator=3)", "torch.rand(2, generator='x')", "torch.manual_seed('x')", "torch.Generator('gpu')", "torch.Generator().set_state(a)", "torch.Generator().set_state(torch.zeros(3).byte())", "torch.Generator().manual_seed('x')", "torch.seed(3)", "torch.dropout(a, 2., True)", "torch.native_dropout(a, 2., True)", "torch.rrelu(a, 2., 1., True)", 
    ],
    "writing": [
        "g.add_(1)", "g.view(6).add_(1)", "g[0].mul_(2)", "g.zero_()", "g.copy_(a)", "torch.add(g, g, out=a)", "torch.add(a, a, out=g)", "torch.exp(a, out=g)", "a.unsqueeze(0).expand(5, 2, 3).zero_().x", "a.expand(4, 2, 3).mul_(2)", "a[0].expand(3, 3).copy_(q)", "v.add_(v[None].expand(2, 3))", "a.t_(1)", "x3.t_()", "a.transpose_(0, 5)", "a.squeeze_(9)", "a.unsqueeze_(9)",
        "a.detach_().requires_grad_('x')", "i.requires_grad_()", "m.requires_grad_(True)", "setattr(i, 'requires_grad', True)", "setattr(a, 'grad', b)", "setattr(a, 'grad', d)", "setattr(a, 'grad', 3)", "setattr(a, 'grad', a)", "setattr(a, 'data', 3)", "setattr(g * 2, 'requires_grad', False)", "a.backward()", "g.backward()", "(g * 2).backward()", "(g * 2).sum().backward(v)", "a.retain_grad()",
        "a.register_hook(print)", "torch.autograd.grad(g.sum(), a)", "torch.autograd.grad(a.sum(), g)", "torch.autograd.grad((g * 2).sum(), a.clone().requires_grad_())", "torch.autograd.grad(g * 2, g)", "twice((g * g).sum())", "saved_changed(g)", "detached_view(g)", "v[:2].add_(v[1:])", "a.sort(out=(a, a))", "torch.add(a, 1, 2, 3, 4)", "torch.add()", "a.add()", "torch.add(other=a)", "torch.add(a, a, a)", "torch.add(a, a, beta=2)", "torch.add(a, other=a, self=a)",
        "torch.sum(a, 0, False, None)", "torch.cat(tensor=[a])", "a.sum(axis=0, dim=1)", "a.size(2)", "a.size('x')", "a.stride(3)", "len(s)", "iter(s)", "hash(a) and a.shape[5]", "a.dtype.x", "torch.no_such_function(a)", "a.no_such_method()", "F.no_such_function(a)", "a.element_size(1)", "a.numel(1)", "a.dim(1)",
    ],
}


def tensors(torch: Any) -> dict[str, Any]:
    """The names that calls use: fresh tensors of all kinds, and the few statements an expression cannot hold."""

    def set_(target: Any, index: Any, value: Any) -> None:
        target[index] = value

    def if_(condition: Any) -> bool:
        return True if condition else False

    def twice(loss: Any) -> None:
        loss.backward()
        loss.backward()

    def saved_changed(leaf: Any) -> None:
        square = leaf.exp()
        total = square.sum()
        square.mul_(2)
        total.backward()

    def detached_view(leaf: Any) -> None:
        with torch.no_grad():
            view = (leaf * 1).view(6)
        view.requires_grad_().mul_(2)

    g = torch.arange(6.0).reshape(2, 3).requires_grad_()
    g.grad = torch.ones(2, 3)
    a = torch.arange(6.0).reshape(2, 3)
    return {
        "torch": torch, "F": torch.nn.functional, "set_": set_, "if_": if_, "twice": twice,
        "saved_changed": saved_changed, "detached_view": detached_view, "a": a, "g": g,
        "b": torch.arange(12.0).reshape(3, 4), "v": torch.arange(3.0), "v4": torch.arange(4.0), "s": torch.tensor(2.0),
        "i": torch.arange(6).reshape(2, 3), "idx": torch.arange(2), "m": a > 2, "c": torch.complex(a, a + 1),
        "d": a.double(), "h": a.bfloat16(), "e": torch.zeros(0, 3), "q": torch.eye(3) + 1,
        "x3": torch.arange(24.0).reshape(2, 3, 4), "x4": torch.arange(216.0).reshape(2, 3, 6, 6),
        "w4": torch.arange(108.0).reshape(4, 3, 3, 3), "meta": torch.empty(2, 3, device="meta"),
    }  # fmt: skip


def state(names: dict[str, Any]) -> dict[str, Any]:
    """All of the tensors that a call could change, and the random generator."""
    found = {}
    for name, value in names.items():
        if hasattr(value, "_version"):
            geometry = tuple(value.shape), value.stride(), value.dtype, value.requires_grad, value._version
            found[name] = (*geometry, value.is_meta or value.tolist(), value.grad is None or value.grad.tolist())
    return found | {"generator": bytes(names["torch"].get_rng_state().tolist())}


def outcome(torch: Any, call: str) -> tuple[BaseException | None, Any, list[str]]:
    """What a call raised or returned, and the names of what it changed."""
    torch.manual_seed(0)
    names = tensors(torch)
    before, raised, returned = state(names), None, None
    try:
        returned = eval(call, names)
    except Exception as error:  # noqa: BLE001 - whatever it raises is what the test looks at
        raised = error
    after = state(names)
    return raised, returned, [name for name in before if before[name] != after[name]]
