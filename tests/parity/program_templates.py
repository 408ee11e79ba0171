"""The lines of random programs (see random_programs.py): templates in groups, and what fills their places.

A place in braces is filled by the method of `Places` of that name; a 2 after it asks for another of the same kind.
"""

LEAVES = (
    "{new} = torch.tensor({values}, dtype=torch.float64, requires_grad=True)",
    "{new} = torch.tensor({values}, dtype={dtype}, requires_grad={flag})",
    "{new} = torch.tensor({values}, dtype=torch.float64)",
    "{new} = torch.tensor({values}, dtype={kind})",
)
VIEWS = (
    "{new} = {x}.view({shape})",
    "{new} = {x}.reshape({shape})",
    "{new} = {x}.transpose({dim}, {dim2})",
    "{new} = {x}.t()",
    "{new} = {x}.permute({order})",
    "{new} = {x}.select({dim}, {place})",
    "{new} = {x}[{item}]",
    "{new} = {x}[{item}]",
    "{new} = {x}.narrow({dim}, {place}, {count})",
    "{new} = {x}.expand({wide})",
    "{new} = {x}.squeeze()",
    "{new} = {x}.squeeze({dim})",
    "{new} = {x}.unsqueeze({dim})",
    "{new} = {x}.diagonal()",
    "{new} = {x}.diagonal({offset}, {dim}, {dim2})",
    "{new} = {x}.unbind({dim})[{end}]",
    "{new} = {x}.split({count}, {dim})[{end}]",
    "{new}, {new2} = {x}.chunk(2, {dim})",
    "{new} = {x}.as_strided({strided})",
    "{new} = {x}.detach()",
    "{new} = {x}.data",
    "{new} = {x}.unfold({dim}, {count}, {count2})",
    "{new} = {x}.flatten()",
    "{new} = {x}.flatten({dim}, {dim2})",
    "{new} = {x}.view_as({z})",
    "{new} = {x}.expand_as({z})",
    "{new} = {x}.movedim({dim}, {dim2})",
    "{new} = {x}.expand({wide}).t()",
    "{new} = {x}.unflatten({dim}, (1, -1))",
    "{new} = {x}.swapaxes({dim}, {dim2})[{item}]",
    "{new}, {new2} = {x}.tensor_split(2, {dim})",
    "{new} = {x}.roll({count}, {dim})",
    "{new} = torch.einsum('...->...', {x})",
    "{new} = {x}.reshape_as({z})",
    "{new} = {x}._base",
    "{new} = {x}.view({kind})",
)
WRITES = (
    "{w}.add_({y})",
    "{w}.add_({scalar})",
    "{w}.mul_({y})",
    "{w}.mul_({scalar})",
    "{w} += {y}",
    "{w}.sub_({y}, alpha={scalar})",
    "{w}.div_({scalar})",
    "{w}.zero_()",
    "{w}.fill_({scalar})",
    "{w}.copy_({y})",
    "{w}[{item}] = {scalar}",
    "{w}[{item}] = {y}",
    "{w}[{item}] *= {scalar}",
    "{w}[{w} > {scalar}] = {scalar2}",
    "{w}.clamp_({scalar}, 2)",
    "{w}.neg_()",
    "{w}.relu_()",
    "{w}.tanh_()",
    "{w}.t_()",
    "{w}.transpose_({dim}, {dim2})",
    "{w}.squeeze_()",
    "{w}.squeeze_({dim})",
    "{w}.unsqueeze_({dim})",
    "{w}.masked_fill_({w} < {scalar}, {scalar2})",
    "{w}.index_fill_({dim}, torch.tensor([{place}]), {scalar})",
    "{w}.addcmul_({y}, {z}, value={scalar})",
    "{w}.detach_()",
    "{w}.data.mul_({scalar})",
    "{w}.lt_({scalar})",
    "{w}.eq_({y})",
    "{w}.logical_not_()",
    "{w}.sigmoid_()",
    "{w}.floor_()",
    "{w}.pow_(2)",
    "{w}.cumsum_({dim})",
    "{w}.fill_diagonal_({scalar})",
    "{w}.index_add_({dim}, torch.tensor([0]), {w}.narrow({dim}, 0, 1).detach().clone())",
    "{w}.index_copy_({dim}, torch.tensor([{place}]), {w}.narrow({dim}, 0, 1).detach().clone())",
    "{w}.scatter_({dim}, torch.zeros_like({w}, dtype=torch.int64), {scalar})",
    "{w}.masked_scatter_({w} > {scalar}, {w}.detach().clone())",
    "{w}.put_(torch.tensor([0]), torch.ones(1, dtype={w}.dtype))",
    "{w}.clamp_min_({y})",
    "{w}.copy_({y}.expand({w}.shape))",
    "{w}.requires_grad_({flag}).mul_({scalar})",
    "torch.relu_({w})",
    "torch.nn.functional.relu({w}, inplace=True)",
    "{w}.__setitem__(slice(None), {y})",
    "{w}.lerp_({y}, {scalar})",
    "{w}.addmm_({y}, {z})",
    "{w}.tril_()",
)
SETS = (
    "{w}.set_()",
    "{w}.set_({kin})",
    "{w}.set_({kin})",
    "{w}.set_({z})",
    "{w}.set_({kin}.untyped_storage())",
    "{w}.set_({kin}.untyped_storage(), {place}, {size}, {steps}).fill_({scalar})",
    "{w}.set_({kin}, {begin}, {size}).fill_({scalar})",
    "{w}.set_({kin}, 0, (1,), (1,)).fill_({scalar})",
    "{w}.set_({w}, 0, {w}.shape[:1], {w}.stride()[:1])",
    "{w}.data = {kin}",
    "{w}.data = {z}",
    "{w}.resize_({size}).fill_({scalar})",
    "{w}.resize_({size}).zero_()",
    "{w}.resize_as_({z}).fill_({scalar})",
    "{w}.resize_(0)",
    "{x}.resize_({size}).fill_({scalar})",
    "{w}.untyped_storage().fill_(0)",
    "{w}.swapaxes_({dim}, {dim2})",
    "{w}.as_strided_({strided})",
)
OUTS = (
    "torch.add({y}, {z}, out={w})",
    "torch.mul({y}, {scalar}, out={w})",
    "torch.sub({y}, {w}, out={w})",
    "torch.neg({y}, out={w})",
    "torch.tanh({z}, out={w})",
    "torch.eq({y}, {z}, out={w})",
    "torch.sum({z}, 0, out={w})",
    "torch.exp({z}.clamp(-3, 3), out={w})",
    "torch.cat([{z}, {z}], 0, out={w})",
    "torch.stack([{z}, {y}], out={w})",
    "torch.clamp({z}, {scalar}, out={w})",
    "torch.max({z}, 0, out=({w}, torch.empty(0, dtype=torch.int64)))",
    "torch.max({z}, 0, keepdim=True, out=({w}, {new_integers}))",
    "torch.arange({count}, out={w})",
    "torch.arange(0, {count}, 0.5, out={w})",
    "torch.linspace(0, 3, {count}, out={w})",
    "torch.linspace(0, 3, 4, out={w}[{item}])",
    "torch.arange(6, out={w}[{item}])",
    "torch.zeros({size}, out={w})",
    "torch.ones({w}.shape, out={w}[{item}])",
    "torch.full({size}, {scalar}, out={w})",
    "torch.eye({count}, out={w})",
    "torch.where({y} > {scalar}, {y}, {y}, out={w})",
    "torch.addcmul({y}, {z}, {z}, out={w})",
    "torch.pow({z}, 2, out={w})",
    "torch.norm({z}, out={w})",
    "torch.sort({z}, out=({w}, {new_integers}))",
    "torch.add({y}, {scalar}, out={w}.expand({wide}))",
    "torch.amax({z}, 0, out={w})",
    "torch.mean({z}, 0, out={w})",
    "torch.softmax({z}, 0, out={w})",
    "torch.abs({z}, out={w})",
    "torch.cumsum({z}, 0, out={w})",
    "torch.cumprod({z}, 0, out={w})",
    "torch.index_select({z}, 0, torch.tensor([0]), out={w})",
    "torch.tril({z}, out={w})",
    "torch.matmul({y}, {z}, out={w})",
)
RESULTS = (
    "{new} = {x} + {y}",
    "{new} = {x} * {y}",
    "{new} = {x} - {y}",
    "{new} = {x} / {y}",
    "{new} = {x} * {scalar}",
    "{new} = {scalar} - {x}",
    "{new} = {tame}.exp()",
    "{new} = {x}.tanh()",
    "{new} = {x}.relu()",
    "{new} = {x}.sum()",
    "{new} = {x}.sum({dims}, keepdim={flag})",
    "{new} = {x}.mean({dims})",
    "{new} = {x} @ {partner}",
    "{new} = torch.matmul({x}, {z})",
    "{new} = torch.cat([{x}, {same}], {dim})",
    "{new} = torch.stack([{x}, {same}], {dim})",
    "{new} = torch.where({x} > {scalar}, {x}, {y})",
    "{new} = {x}.max({dim}).values",
    "{new}, {new2} = {x}.max({dim}, keepdim=True)",
    "{new} = {x}.cumsum({dim})",
    "{new} = {x}.softmax({dim})",
    "{new} = {x}.clone()",
    "{new} = {x}.contiguous()",
    "{new} = {x}.to({kind})",
    "{new} = copy.deepcopy({x})",
    "del {x}",
    "{new} = Double.apply({x})",
    "{new} = Square.apply({x})",
    "{new} = InPlace.apply({w})",
    "{new} = AsIs.apply({x})",
    "{new} = Part.apply({x})",
    "{new}, {new2} = Both.apply({x})",
    "{new} = checkpoint(lambda x: x.tanh() * x, {x}, use_reentrant=False)",
    "{new} = checkpoint(lambda x: x.tanh() * x, {x}, use_reentrant=True)",
    "{new} = checkpoint(lambda x, y: Square.apply(x * y).sum(), {x}, {y}, use_reentrant=False)",
    "{new} = torch.nn.functional.linear({x}, {x})",
    "{new} = {x}.new_zeros({size})",
    "{new} = torch.empty_like({x}).copy_({x})",
    "{new} = {x}.type_as({z})",
    "{new} = {x}.index_select({dim}, torch.tensor([{place}]))",
    "{new} = {x}.masked_fill({x} > {scalar}, {scalar2})",
    "{new} = {x}.sort({dim}).values",
    "{new} = {x}.std()",
    "{new} = {x}.norm()",
    "{new} = {x}.amax({dim})",
)
MODES = (
    "modes.append(torch.no_grad()); modes[-1].__enter__()",
    "modes.append(torch.enable_grad()); modes[-1].__enter__()",
    "{mode}.__exit__(None, None, None)",
    "{mode}.__exit__(None, None, None)",
    "torch.set_grad_enabled({flag})",
    "modes.append(torch.inference_mode()); modes[-1].__enter__()",
    "modes.append(torch.inference_mode(False)); modes[-1].__enter__()",
    "modes.append(torch.autocast('cpu', dtype=torch.bfloat16)); modes[-1].__enter__()",
    "modes.append(torch.autocast('cpu', enabled=False)); modes[-1].__enter__()",
    "{mode}.__exit__(None, None, None)",
    "{mode}.__exit__(None, None, None)",
)
# What a line may stand in; a part of the lines stands in one.
SURROUNDINGS = (
    "with torch.no_grad(): ",
    "with torch.enable_grad(): ",
    "with torch.inference_mode(): ",
    "with torch.autocast('cpu', dtype=torch.bfloat16): ",
    "with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone): ",
)
GRADIENTS = (
    "{g}.sum().backward()",
    "{g}.sum().backward()",
    "{g}.sum().backward(retain_graph=True)",
    "{g}.backward()",
    "{g}.backward(torch.ones_like({g}), retain_graph={flag})",
    "{g}.sum().backward(inputs=[{leaf}])",
    "({g} * {g}).sum().backward(create_graph={flag})",
    "{new} = torch.autograd.grad({g}.sum(), {source})[0]",
    "{new} = torch.autograd.grad(({g} * {g}).sum(), {source}, create_graph=True)[0]",
    "{new} = torch.autograd.grad({g}.sum(), {source}, retain_graph=True, allow_unused=True)[0]",
    "{new} = torch.autograd.grad({g}, {source}, torch.ones_like({g}), retain_graph={flag})[0]",
    "{x}.requires_grad_({flag})",
    "{f}.requires_grad_()",
    "{f}.requires_grad = {flag}",
    "{g}.retain_grad()",
    "{handle} = {g}.register_hook(lambda grad: log.append(({tag}, grad.detach().clone())))",
    "{handle} = {g}.register_hook(lambda grad: grad * 2)",
    "{handle} = {leaf}.register_post_accumulate_grad_hook(lambda p: log.append(({tag}, p.grad.detach().clone())))",
    "{old_handle}.remove()",
    "{new} = {leaf}.grad",
    "{leaf}.grad = None",
    "{leaf}.grad.zero_()",
    "{leaf}.grad.data = {kin}",
    "{handle} = {g}.grad_fn.register_hook(lambda ins, outs: log.append(({tag}, outs[0].detach().clone())))",
    "{handle} = {g}.grad_fn.register_prehook(lambda outs: tuple(None if o is None else o * 2 for o in outs))",
    "{handle} = {g}.register_hook(lambda grad: grad.mul_(2))",
    "{handle} = {g}.register_hook(lambda grad: grad.sum())",
    "torch.autograd.backward([{g}.sum(), {g2}.sum()], retain_graph={flag})",
    "torch.autograd.backward([{g}.sum(), {g2}.sum()], inputs=[{source}, {source2}])",
    "{new}, {new2} = torch.autograd.grad([{g}.sum(), {g2}.sum()], [{source}, {source2}], allow_unused=True)",
    "{new} = torch.autograd.grad({g}.sum(), {source}, create_graph=True, materialize_grads=True)[0]",
    "({g}.exp() * {g}).mean().backward()",
    "{g}.sum().backward(create_graph=True)",
    "{w}.grad = {same}",
    "{x}.retain_grad()",
)
PRELUDE = """
from {module}.utils.checkpoint import checkpoint

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 2

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * x * 2

class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)
    @staticmethod
    def backward(ctx, grad):
        return grad * 3

class AsIs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
    @staticmethod
    def backward(ctx, grad):
        return grad * 5

class Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)
    @staticmethod
    def backward(ctx, grad):
        return grad.view(ctx.shape)

class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        above = x > 0
        ctx.mark_non_differentiable(above)
        result = x.exp().clamp(max=9)
        ctx.save_for_backward(result, above)
        return result, above
    @staticmethod
    def backward(ctx, grad, ignored):
        result, above = ctx.saved_tensors
        return grad * result * above
"""
# The first byte of a step selects a group, with these weights.
GROUPS = ((LEAVES, 20), (VIEWS, 60), (WRITES, 55), (RESULTS, 40), (GRADIENTS, 40), (MODES, 10), (SETS, 16), (OUTS, 15))
GROUP_OF_BYTE = [group for group, weight in GROUPS for _ in range(weight)]
FIRST = (LEAVES, LEAVES, RESULTS)  # the groups of the first steps
SHAPES = ((2, 3), (3,), (), (2, 2), (1, 3), (3, 2), (1,), (2, 1, 3), (2, 3, 2), (4,), (0, 3))
SCALARS = (2, 0.5, -1, 0, 1, -1.5, 3)
ITEMS = (
    *("0", "-1", "1:", ":-1", "::2", "...", "None", "..., 0", "..., None", ":, 0", ":, 1:", "0, 1", "..., ::2"),
    *("[0, -1]", "[1]", "None, 0", ":, None", "1:1", "..., 1:", "torch.tensor([0, 0])", ":, [0]", "True", "5"),
)
