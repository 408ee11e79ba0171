"""Each optimizer's options, state and flags. Steps are compared with PyTorch's in test_trajectories.py."""

import inspect

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import optim
from mindtorch_v2.optim._functional import adagrad, sparse_adam

BY_LISTS = ("SGD", "Adam", "AdamW", "Adadelta", "Adagrad", "Adamax", "NAdam", "RAdam", "ASGD", "RMSprop", "Rprop")
STEPPING = (*BY_LISTS, "Adafactor", "Muon")


def parameter(*shape, **options):
    return torch.nn.Parameter(torch.ones(*(shape or (2, 2)), **options))


def stepped(optimizer):
    for group in optimizer.param_groups:
        for member in group["params"]:
            member.grad = torch.ones_like(member)
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        *((name, {"lr": -1}, "Invalid learning rate: -1") for name in (*BY_LISTS, "SparseAdam", "LBFGS")),
        *((name, {"lr": torch.ones(2)}, "Tensor lr must be 1-element") for name in (*STEPPING, "SparseAdam", "LBFGS")),
        *((name, {"weight_decay": -1}, "Invalid weight_decay value: -1") for name in BY_LISTS if name != "Rprop"),
        *((name, {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0")
          for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "SparseAdam")),
        *((name, {"eps": -1}, "Invalid epsilon value: -1")
          for name in ("Adam", "Adadelta", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop", "SparseAdam")),
        ("SparseAdam", {"lr": 0.0}, "Invalid learning rate: 0.0"),
        ("SparseAdam", {"eps": 0.0}, "Invalid epsilon value: 0.0"),
        ("Adadelta", {"rho": 2}, "Invalid rho value: 2"),
        ("Adagrad", {"lr_decay": -1}, "Invalid lr_decay value: -1"),
        ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value: -1"),
        ("NAdam", {"momentum_decay": -1}, "Invalid momentum_decay value: -1"),
        ("RMSprop", {"alpha": -1}, "Invalid alpha value: -1"),
        ("RMSprop", {"momentum": -1}, "Invalid momentum value: -1"),
        ("Rprop", {"etas": (0.5, 0.5)}, "Invalid eta values: 0.5, 0.5"),
        ("Adafactor", {"lr": -1}, "Learning rate should be >= 0 but is: -1"),
        ("Adafactor", {"beta2_decay": 1}, "beta2_decay should be <= 0 but is: 1"),
        ("Adafactor", {"eps": (-1, 1)}, "epsilon1 should be >= 0 but is: -1"),
        ("Adafactor", {"eps": (1, -1)}, "epsilon2 should be >= 0 but is: -1"),
        ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
        ("Adafactor", {"weight_decay": -1}, "weight_decay should be >= 0 but is: -1"),
        ("Muon", {"momentum": -1}, "momentum should be >= 0 but is: -1"),
        ("Muon", {"weight_decay": -1}, "weight decay should be >= 0 but is: -1"),
        ("Muon", {"adjust_lr_fn": "x"}, "Adjust learning rate function x is not supported"),
        ("Muon", {"ns_steps": 200}, "Number of steps must be less than 100 for computational efficiency"),
        ("Muon", {"ns_coefficients": (1, 2)}, "Coefficients must be a tuple of exactly 3 values"),
        ("Adam", {"betas": (torch.tensor(0.9), 0.9)}, "betas must be either both floats or both Tensors"),
        ("Adam", {"betas": (torch.tensor(0.9), torch.tensor(0.9)), "foreach": True},
         "betas[0] as a Tensor is not supported for capturable=False and foreach=True"),
    ],
    ids=str,
)  # fmt: skip
def test_options_are_checked(name, options, message):
    with pytest.raises(ValueError) as error:
        optimizer = getattr(optim, name)([parameter()], **options)
        if name == "Muon":  # looks at some options when it needs them
            stepped(optimizer)
    assert str(error.value) == message


@pytest.mark.parametrize("name", [*(name for name in BY_LISTS if name != "SGD"), "Adafactor", "Muon", "LBFGS"])
@pytest.mark.parametrize("lr", ["0.1", None])
def test_a_learning_rate_is_a_number(name, lr):
    with pytest.raises(TypeError) as error:
        getattr(optim, name)([parameter()], lr=lr)
    assert str(error.value) == f"'<=' not supported between instances of 'float' and '{type(lr).__name__}'"


@pytest.mark.parametrize("name", [name for name in BY_LISTS if name not in ("SGD", "Adagrad")])
def test_capturable_wants_a_device_that_records(name):
    others = {"NAdam": "params, mu_products and state_steps", "ASGD": "params, mus, etas, and state_steps"}
    devices = ["cuda", "xpu", "hpu", "privateuseone"] + ["xla"] * (name != "Adadelta")
    with pytest.raises(AssertionError) as error:
        stepped(getattr(optim, name)([parameter()], capturable=True))
    lists = others.get(name, "params and state_steps")
    assert str(error.value) == f"If capturable=True, {lists} must be on supported devices: {devices}."


@pytest.mark.parametrize("name", [name for name in BY_LISTS if name != "SGD"])
def test_foreach_and_differentiable_exclude_each_other(name):
    with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
        stepped(getattr(optim, name)([parameter()], foreach=True, differentiable=True))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused(name):
    kind = getattr(optim, name)
    with pytest.raises(RuntimeError) as error:
        stepped(kind([parameter(dtype=torch.complex64)], fused=True))
    assert str(error.value) == (
        "`fused=True` requires all the params to be floating point Tensors of supported devices: "
        "['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia', 'privateuseone'] but torch.complex64 and cpu"
    )
    for found, moves in ((0.0, True), (1.0, False)):  # what a GradScaler tells the optimizer
        member = parameter()
        optimizer = kind([member], lr=0.5, fused=True)
        assert optimizer._step_supports_amp_scaling
        optimizer.grad_scale, optimizer.found_inf = torch.tensor(4.0), torch.tensor(found)
        stepped(optimizer)
        assert (member.tolist() != [[1.0, 1.0], [1.0, 1.0]]) == moves
        assert member.grad[0, 0].item() == (0.25 if moves else 1.0)
        if name != "SGD":
            assert optimizer.state[member]["step"].item() == moves


STATE = {
    "SGD": [], "Adam": ["step", "exp_avg", "exp_avg_sq"], "Adadelta": ["step", "square_avg", "acc_delta"],
    "Adagrad": ["step", "sum"], "Adamax": ["step", "exp_avg", "exp_inf"],
    "NAdam": ["step", "mu_product", "exp_avg", "exp_avg_sq"], "RAdam": ["step", "exp_avg", "exp_avg_sq"],
    "ASGD": ["step", "eta", "mu", "ax"], "RMSprop": ["step", "square_avg"], "Rprop": ["step", "prev", "step_size"],
    "Adafactor": ["step", "row_var", "col_var"], "Muon": ["momentum_buffer"],
}  # fmt: skip


@pytest.mark.parametrize("name", STATE)
def test_state(name):
    member = parameter()
    optimizer = stepped(getattr(optim, name)([member]))
    state = optimizer.state[member]
    assert list(state) == STATE[name]
    counters = [state[key] for key in ("step", "eta", "mu", "mu_product") if key in state]
    assert all(counter.shape == () and counter.dtype == torch.float32 for counter in counters)
    saved = optimizer.state_dict()
    saved["param_groups"] = [{"params": [0]}]  # a checkpoint from before all options, with plain numbers
    for key in ("step", "eta", "mu", "mu_product"):
        if key in state:
            saved["state"][0][key] = 3.0
    twin = getattr(optim, name)([parameter()])
    twin.load_state_dict(saved)
    loaded = twin.state[twin.param_groups[0]["params"][0]]
    assert all(loaded[key].item() == 3.0 for key in ("step", "eta", "mu", "mu_product") if key in state)
    assert set(twin.param_groups[0]) == {"params", *type(twin)._added}


@pytest.mark.parametrize("name", STEPPING)
def test_half_precision_and_layout(name):
    member = parameter(2, 3, dtype=torch.bfloat16)
    transposed = torch.nn.Parameter(torch.ones(3, 2).t())
    optimizer = stepped(getattr(optim, name)([member, transposed], lr=10.0 if name == "Adadelta" else 0.1))
    assert member.dtype == torch.bfloat16 and not torch.equal(member, torch.ones_like(member))
    for key, value in optimizer.state[transposed].items():
        if value.shape == (2, 3):
            assert value.stride() == transposed.stride(), key


DIFFERENTIABLE = [
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, ["momentum_buffer"]),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}, ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"]),
    ("AdamW", {}, ["exp_avg", "exp_avg_sq"]),
    ("Adadelta", {}, ["square_avg", "acc_delta"]),
    ("Adagrad", {}, ["sum"]),
    ("Adamax", {}, ["exp_avg", "exp_inf"]),
    ("NAdam", {}, ["exp_avg", "exp_avg_sq", "mu_product"]),
    ("RAdam", {}, ["exp_avg", "exp_avg_sq"]),
    ("ASGD", {}, ["ax"]),
    ("RMSprop", {"momentum": 0.9, "centered": True}, ["square_avg", "grad_avg", "momentum_buffer"]),
    ("Rprop", {}, ["prev", "step_size"]),
]


@pytest.mark.parametrize(("name", "options", "states"), DIFFERENTIABLE, ids=str)
def test_a_differentiable_step_has_the_right_gradients(name, options, states):
    def step(start, gradient, *values):
        member = start.clone()
        member.grad = gradient.clone()
        optimizer = getattr(optim, name)([member], lr=0.1, differentiable=True, **options)
        kept = {key: value.clone() for key, value in zip(states, values, strict=True)}
        counters = {"step": 7.0, "eta": 0.01, "mu": 1.0}
        wanted = ("step", "eta", "mu") if name == "ASGD" else ("step",) * (name != "SGD")
        kept |= {key: torch.tensor(counters[key], dtype=torch.float64) for key in wanted}
        optimizer.state[member].update(kept)
        optimizer.step()
        return member, *(optimizer.state[member][key] for key in states)

    shapes = [(3,), (3,), *(() if key == "mu_product" else (3,) for key in states)]
    inputs = [(torch.rand(shape, dtype=torch.float64) * 0.8 + 0.1) for shape in shapes]
    if "centered" in options:
        inputs[2] += 1  # a mean of squares is no less than the square of the mean
    for value in inputs:
        value.requires_grad_()
    assert torch.autograd.gradcheck(step, tuple(inputs))


@pytest.mark.parametrize("name", [name for name in BY_LISTS if name not in ("ASGD", "Rprop")])
def test_a_differentiable_step_has_a_gradient_for_the_rate(name):
    def move(rate):
        member = torch.ones(3, dtype=torch.float64, requires_grad=True).clone()
        member.grad = torch.full((3,), 0.7, dtype=torch.float64)
        stepper = getattr(optim, name)([member], lr=rate, differentiable=True)
        stepper.step()
        return member

    assert torch.autograd.gradcheck(move, (torch.tensor(0.1, dtype=torch.float64, requires_grad=True),))


@pytest.mark.parametrize("name", ["Adam", "Adadelta", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"])
def test_functions_want_counters_in_tensors(name):
    function = getattr(optim, name)._function
    parameters = inspect.signature(function).parameters.values()
    lists = [[1] if p.name == "state_steps" else [torch.ones(2)] for p in parameters if p.default is p.empty
             and p.kind is not p.KEYWORD_ONLY]  # fmt: skip
    with pytest.raises(RuntimeError, match="API has changed, `state_steps` argument must contain a list of singleton"):
        function(*lists, **{p.name: 0.1 for p in parameters if p.kind is p.KEYWORD_ONLY})


class Sparse:
    """What the optimizers ask of a sparse gradient."""

    is_sparse = True

    def __init__(self, rows, values):
        self.rows, self.values = rows, values

    def coalesce(self):
        return self

    def __neg__(self):
        return Sparse(self.rows, -self.values)

    def _indices(self):
        return torch.tensor([self.rows])

    def _values(self):
        return self.values


def test_sparse_adam_moves_named_rows_as_adam_does():
    start, rows = torch.randn(5, 3, dtype=torch.float64), [1, 4]
    dense, sparse = torch.nn.Parameter(start[rows].clone()), start.clone()
    states = torch.zeros_like(sparse), torch.zeros_like(sparse)
    adam = optim.Adam([dense], lr=0.1, eps=0.0)
    for step in (1, 2, 3):
        dense.grad = torch.randn(2, 3, dtype=torch.float64)
        adam.step()
        sparse_adam([sparse], [Sparse(rows, dense.grad)], [states[0]], [states[1]], [step], eps=0.0, beta1=0.9,
                    beta2=0.999, lr=0.1, maximize=False)  # fmt: skip
    assert torch.allclose(sparse[rows], dense, rtol=1e-12)
    assert torch.equal(sparse[[0, 2, 3]], start[[0, 2, 3]])
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
        stepped(optim.SparseAdam([parameter()]))
    with pytest.raises(ValueError, match=r"Complex params at indices \[\[0, 0\]\]: SparseAdam does not support"):
        optim.SparseAdam([parameter(dtype=torch.complex64)])


def test_adagrad_takes_sparse_gradients():
    start, rows = torch.randn(5, 3, dtype=torch.float64), [0, 2]
    dense, sparse = torch.nn.Parameter(start[rows].clone()), start.clone()
    total, count = torch.zeros_like(sparse), torch.tensor(0.0)
    optimizer = optim.Adagrad([dense], lr=0.1, lr_decay=0.1)
    options = {"lr": 0.1, "lr_decay": 0.1, "eps": 1e-10, "maximize": False, "has_sparse_grad": True}
    for _ in range(3):
        dense.grad = torch.randn(2, 3, dtype=torch.float64)
        optimizer.step()
        adagrad([sparse], [Sparse(rows, dense.grad)], [total], [count], weight_decay=0, **options)
    assert torch.allclose(sparse[rows], dense, rtol=1e-12) and torch.equal(sparse[[1, 3, 4]], start[[1, 3, 4]])
    with pytest.raises(RuntimeError, match="weight_decay option is not compatible with sparse gradients"):
        adagrad([sparse], [Sparse(rows, dense.grad)], [total], [count], weight_decay=0.1, **options)


def test_lbfgs():
    member = torch.nn.Parameter(torch.tensor([-1.5, 2.0], dtype=torch.float64))
    optimizer = optim.LBFGS([member], max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (1 - member[0]) ** 2 + 100 * (member[1] - member[0] ** 2) ** 2
        loss.backward()
        return loss

    first = closure().item()
    assert optimizer.step(closure).item() == first
    assert member.tolist() == pytest.approx([1.0, 1.0], abs=1e-5)
    state = optimizer.state_dict()["state"][0]
    assert set(state) == {"func_evals", "n_iter", "al", "d", "t", "old_dirs", "old_stps", "ro", "H_diag",
                          "prev_flat_grad", "prev_loss"}  # fmt: skip
    with pytest.raises(ValueError, match="LBFGS doesn't support per-parameter options"):
        optim.LBFGS([{"params": [parameter()]}, {"params": [parameter()]}])
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        member.data.fill_(0.0)
        optim.LBFGS([member], line_search_fn="x").step(closure)


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"Muon only supports 2D parameters .* with size: torch.Size\(\[2\]\)"):
        optim.Muon([parameter(2)])
    for name in ("Muon", "Adafactor"):
        with pytest.raises(RuntimeError, match=f"{name} does not support complex parameters"):
            stepped(getattr(optim, name)([parameter(dtype=torch.complex64)]))


def test_swapping_parameters_in():
    optimizer = stepped(optim.Adam([parameter(), parameter()], lr=0.5))
    own = optimizer.param_groups[0]["params"]
    before, state = own[0].tolist(), optimizer.state_dict()
    others = {"a": torch.zeros(2, 2), "b": torch.zeros(2, 2)}
    for other in others.values():
        other.grad = torch.ones(2, 2)
    with optim.swap_in_optimizer_params_and_state(optimizer, others, state):
        optimizer.step()
    assert others["a"][0, 0].item() == pytest.approx(-0.5) and own[0].tolist() == before
    assert optimizer.param_groups[0]["params"][0] is own[0]
    wrong = optim.swap_in_optimizer_params_and_state(optimizer, others, {**state, "param_groups": []})
    with pytest.raises(RuntimeError, match="has a different number of parameter groups than the live optimizer"), wrong:
        pass


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_a_step_does_not_write_to_gradients(name):
    parameter = torch.ones(3, requires_grad=True)
    optimizer = getattr(torch.optim, name)([parameter], lr=0.1, weight_decay=0.1)
    (parameter * parameter).sum().backward()
    version = parameter.grad._version
    optimizer.step()
    assert parameter.grad._version == version and parameter.grad.tolist() == [2.0, 2.0, 2.0]


def lbfgs_evaluations(loss, start: float, **options) -> tuple[int, float]:
    """How often a step asked for the loss, and where it came to."""
    x = torch.tensor([start], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe", **options)
    asked = 0

    def closure():
        nonlocal asked
        asked += 1
        optimizer.zero_grad()
        value = loss(x)
        value.backward()
        return value

    optimizer.step(closure)
    return asked, x.item()


def test_lbfgs_line_search_stays_within_max_eval():
    asked, place = lbfgs_evaluations(lambda x: (x**4).sum() + (x * 3).cos().sum(), 3.0, max_iter=1, max_eval=3, lr=10.0)
    assert asked == 3
    assert place == pytest.approx(-1.7722937264045715)


def test_lbfgs_line_search_along_a_straight_line():
    """Whose slopes are equal, so that the cubic through them divides zero by zero."""
    assert lbfgs_evaluations(lambda x: x.sum() * 1e-4, 0.0, lr=1e3, max_iter=3) == (4, pytest.approx(-5.5045))


@pytest.mark.parametrize(("name", "options", "expected"), [
    ("SGD", {"lr": 0.1, "weight_decay": 0.3}, [-24.40629, 0.868769]),
    ("RAdam", {"lr": 0.1}, [-21.339408]),
    ("Adam", {"lr": 0.1, "beta1": 0.8, "beta2": 0.7, "weight_decay": 0.3}, [-5.958991, -0.010599, 0.012625, 0.000243]),
    ("AdamW", {"lr": 0.1, "beta1": 0.8, "beta2": 0.7, "weight_decay": 0.3}, [-4.738816, -0.028399, 0.032259, 0.341594]),
])
def test_several_differentiable_steps_have_gradients_for_their_options(name, options, expected):
    given = {key: torch.tensor(value, dtype=torch.float64, requires_grad=True) for key, value in options.items()}
    passed = dict(given)
    if "beta1" in passed:
        passed["betas"] = (passed.pop("beta1"), passed.pop("beta2"))
    member = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True).clone()
    optimizer = getattr(optim, name)([member], differentiable=True, **passed)
    for _ in range(3):
        member.grad = member.clone() ** 2
        optimizer.step()
    member.sum().backward()
    assert [value.grad.item() for value in given.values()] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("name", "options", "writes"), (
    ("AdamW", {}, 2), ("AdamW", {"weight_decay": 0}, 1), ("AdamW", {"foreach": True}, 2), ("Adam", {}, 1),
    ("Adam", {"weight_decay": 0.1}, 1), ("ASGD", {"foreach": True}, 1), ("ASGD", {"foreach": False}, 2), ("SGD", {}, 1),
))
def test_a_step_counts_the_writes_to_a_parameter(name, options, writes):
    member = parameter()
    optimizer = getattr(optim, name)([member], lr=0.1, **options)
    for _ in range(3):
        stepped(optimizer)
    assert member._version == 3 * writes
    if "Adam" in name:
        state = optimizer.state[member]
        assert (state["exp_avg"]._version, state["exp_avg_sq"]._version) == (3, 6)


def test_a_weight_decay_of_several_dimensions_is_refused():
    parameter = torch.ones(1, 2, requires_grad=True)
    parameter.sum().backward()
    optimizer = torch.optim.NAdam([parameter], weight_decay=torch.tensor([[1.0]]))
    with pytest.raises(TypeError, match="argument 'alpha' must be Number, not Tensor"):
        optimizer.step()


@pytest.mark.parametrize("name", ("Adam", "AdamW", "Adagrad"))
def test_steps_are_counted_alike_with_and_without_an_onlooker(name):
    class Onlooker(torch.utils._python_dispatch.TorchDispatchMode):
        seen: list[str] = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    optimizer = getattr(optim, name)([parameter(), parameter(3)], lr=0.1)
    counts = [optimizer.state[member]["step"] for member in stepped(optimizer).param_groups[0]["params"]]
    before = [count._version for count in counts]
    stepped(optimizer)
    with Onlooker():
        stepped(optimizer)
    assert [count.item() for count in counts] == [3, 3]
    assert [count._version - old for count, old in zip(counts, before, strict=True)] == [2, 2]
    assert "_foreach_add_.Scalar" in Onlooker.seen


def test_a_count_of_steps_that_no_operator_adds_to_is_refused():
    for count, text in ((torch.tensor(True), "can't be cast to the desired output type Bool"),
                        (torch.tensor([1.0, 2.0]), "a Tensor with 2 elements cannot be converted to Scalar")):
        optimizer = optim.Adam([parameter()])
        optimizer.state[stepped(optimizer).param_groups[0]["params"][0]]["step"] = count
        with pytest.raises(RuntimeError, match=text):
            stepped(optimizer)


@pytest.mark.parametrize("name", BY_LISTS)
def test_options_that_are_not_its_own_are_left_alone(name: str) -> None:
    """Programs keep notes in groups, and share groups among optimizers."""
    extra = {"betas": (0.9, 0.99), "momentum": 0.5, "name": "head", "etas": (0.5, 1.2), "dampening": 0.1, "rho": 0.9}
    steps = []
    for others in ({}, extra):
        parameter = torch.nn.Parameter(torch.ones(3))
        optimizer = getattr(torch.optim, name)([parameter], lr=0.1)
        group = optimizer.param_groups[0]
        for key, value in others.items():
            group.setdefault(key, value)
        for _ in range(3):
            parameter.grad = torch.tensor([1.0, -2.0, 0.5])
            optimizer.step()
        steps.append(parameter.detach())
    assert torch.equal(*steps)
