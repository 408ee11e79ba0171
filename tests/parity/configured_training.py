"""Random configurations of optimizers, schedulers, init functions and nn.utils, over a few steps."""

from collections.abc import Callable

from configuration import Call, Configuration, Draw, Line

FLAG = ("True", "False")
OPTIMIZERS: dict[str, dict[str, tuple]] = {
    "SGD": dict(
        lr=(0.1, 1.0, "torch.tensor(0.1)"),
        momentum=(0.0, 0.9),
        dampening=(0.0, 0.1),
        weight_decay=(0.0, 0.1),
        nesterov=FLAG,
        maximize=FLAG,
        foreach=FLAG,
    ),
    "Adam": dict(
        lr=(0.01, 0.1, "torch.tensor(0.1)"),
        betas=((0.8, 0.9), (0.0, 0.0)),
        eps=(1e-8, 1e-3),
        weight_decay=(0, 0.1),
        amsgrad=FLAG,
        maximize=FLAG,
        foreach=FLAG,
        decoupled_weight_decay=FLAG,
    ),
    "AdamW": dict(
        lr=(0.01, 0.1),
        betas=((0.8, 0.9),),
        eps=(1e-8,),
        weight_decay=(0, 0.1),
        amsgrad=FLAG,
        maximize=FLAG,
        foreach=FLAG,
    ),
    "Adadelta": dict(
        lr=(1.0, 0.1), rho=(0.9, 0.5), eps=(1e-6, 1e-3), weight_decay=(0, 0.1), maximize=FLAG, foreach=FLAG
    ),
    "Adagrad": dict(
        lr=(0.01, 0.1),
        lr_decay=(0, 0.1),
        weight_decay=(0, 0.1),
        initial_accumulator_value=(0, 0.1),
        eps=(1e-10,),
        maximize=FLAG,
        foreach=FLAG,
    ),
    "Adamax": dict(
        lr=(0.01, 0.1), betas=((0.8, 0.9),), eps=(1e-8,), weight_decay=(0, 0.1), maximize=FLAG, foreach=FLAG
    ),
    "ASGD": dict(
        lr=(0.01, 0.1),
        lambd=(1e-4, 0.1),
        alpha=(0.75, 0.5),
        t0=(1e6, 1.0),
        weight_decay=(0, 0.1),
        maximize=FLAG,
        foreach=FLAG,
    ),
    "NAdam": dict(
        lr=(0.002, 0.1),
        betas=((0.8, 0.9),),
        eps=(1e-8,),
        weight_decay=(0, 0.1),
        momentum_decay=(4e-3, 0.1),
        decoupled_weight_decay=FLAG,
        maximize=FLAG,
        foreach=FLAG,
    ),
    "RAdam": dict(
        lr=(0.01, 0.1),
        betas=((0.8, 0.9), (0.9, 0.999)),
        eps=(1e-8,),
        weight_decay=(0, 0.1),
        decoupled_weight_decay=FLAG,
        maximize=FLAG,
        foreach=FLAG,
    ),
    "RMSprop": dict(
        lr=(0.01, 0.1),
        alpha=(0.9, 0.5),
        eps=(1e-8,),
        weight_decay=(0, 0.1),
        momentum=(0, 0.9),
        centered=FLAG,
        maximize=FLAG,
        foreach=FLAG,
    ),
    "Rprop": dict(lr=(0.01, 0.1), etas=((0.5, 1.2),), step_sizes=((1e-6, 50),), maximize=FLAG, foreach=FLAG),
    "Adafactor": dict(
        lr=(0.01, 0.1),
        beta2_decay=(-0.8, -0.5),
        eps=((None, 0.001),),
        d=(1.0, 2.0),
        weight_decay=(0, 0.1),
        maximize=FLAG,
        foreach=FLAG,
    ),
    "Muon": dict(
        lr=(0.01, 0.1),
        weight_decay=(0, 0.1),
        momentum=(0.95, 0.5),
        nesterov=FLAG,
        ns_steps=(5, 3),
        adjust_lr_fn=('"original"', '"match_rms_adamw"'),
    ),
    "LBFGS": dict(
        lr=(1, 0.5),
        max_iter=(1, 3, 5),
        max_eval=(None, 2, 4),
        tolerance_grad=(1e-7, 1e-2),
        tolerance_change=(1e-9, 1e-2),
        history_size=(1, 3, 100),
        line_search_fn=("None", '"strong_wolfe"'),
    ),
}
SCHEDULERS: dict[str, tuple[list[str], dict[str, tuple]]] = {
    "LambdaLR": (["lambda epoch: 0.9 ** epoch"], {}),
    "MultiplicativeLR": (["lambda epoch: 0.9"], {}),
    "StepLR": (["2"], dict(gamma=(0.1, 0.5))),
    "MultiStepLR": (["[2, 3]"], dict(gamma=(0.1, 0.5))),
    "ConstantLR": ([], dict(factor=(0.5, 1.0, 0.1), total_iters=(2, 5, 0))),
    "LinearLR": ([], dict(start_factor=(0.5, 0.1), end_factor=(1.0, 0.5), total_iters=(2, 5))),
    "ExponentialLR": (["0.9"], {}),
    "CosineAnnealingLR": (["3"], dict(eta_min=(0.0, 0.01))),
    "PolynomialLR": ([], dict(total_iters=(2, 5), power=(1.0, 2.0))),
    "CosineAnnealingWarmRestarts": (["2"], dict(T_mult=(1, 2), eta_min=(0.0, 0.01))),
    "CyclicLR": (
        ["0.01", "0.1"],
        dict(
            step_size_up=(2, 3),
            step_size_down=(2, 1),
            gamma=(1.0, 0.9),
            mode=('"triangular"', '"triangular2"', '"exp_range"'),
            cycle_momentum=FLAG,
            scale_fn=("None", "lambda x: 0.5 ** x"),
            scale_mode=('"cycle"', '"iterations"'),
        ),
    ),
    "OneCycleLR": (
        ["0.1"],
        dict(
            pct_start=(0.3, 0.5),
            anneal_strategy=('"cos"', '"linear"'),
            cycle_momentum=FLAG,
            div_factor=(25.0, 2.0),
            final_div_factor=(1e4, 10),
            three_phase=FLAG,
        ),
    ),
    "ReduceLROnPlateau": (
        [],
        dict(
            mode=('"min"', '"max"'),
            factor=(0.5, 0.1),
            patience=(0, 1),
            threshold=(1e-4, 0.5),
            threshold_mode=('"rel"', '"abs"'),
            cooldown=(0, 1),
            min_lr=(0, 0.05),
            eps=(1e-8,),
        ),
    ),
    "SWALR": (
        [],
        dict(swa_lr=(0.05, 0.5, "torch.tensor(0.05)"), anneal_epochs=(1, 3, 10), anneal_strategy=('"cos"', '"linear"')),
    ),
}
INITS = """uniform_ normal_ constant_ ones_ zeros_ eye_ dirac_ xavier_uniform_ xavier_normal_ kaiming_uniform_
 kaiming_normal_ orthogonal_ sparse_ trunc_normal_""".split()


def optimizer(d: Draw) -> Configuration:
    name = d.choice(list(OPTIMIZERS))
    kwargs = d.some(0.3, **OPTIMIZERS[name])
    # LBFGS amplifies rounding: in float32 its later steps have few digits in common.
    dtype = {"Muon": "float32", "LBFGS": "float64"}.get(name) or d.choice(("float32", "float32", "float64"))
    shapes = [(2, 3), (3, 2)] if name == "Muon" else d.sample([(2, 3), (3,), (), (1, 2), (0, 2)], 2)
    lines: list[Line] = [d.seeding()]
    for i, shape in enumerate(shapes):
        made = ", ".join(map(str, shape)) or "()"
        lines.append(f"p{i} = torch.randn({made}, dtype=torch.{dtype}, requires_grad=True)")
    params = "[p0, p1]"
    if d.maybe(0.3) and name != "LBFGS":
        lr = d.choice(("0.3", "0.02"))
        params = f'[{{"params": [p0], "lr": {lr}}}, {{"params": p1}}]'
    lines.append(Call(f"torch.optim.{name}", [params], kwargs, "opt"))
    loss = "((p0 * 3 - 1) ** 2).sum() + (p1 * p1).sum() + p0.sum().cos()"
    if name == "LBFGS":
        lines.append(f"def closure(): opt.zero_grad(); loss = {loss}; loss.backward(); return loss")
        lines += ["first = opt.step(closure)", "second = opt.step(closure)"]
        return Configuration(name, [*lines, "del closure"])
    for step in range(d.randint(1, 4)):
        if step == 1 and d.maybe(0.2):
            lines.append("opt.load_state_dict(opt.state_dict())")
        lines += [f"opt.zero_grad({d.choice(('', 'set_to_none=False'))})", f"({loss}).backward()"]
        if d.maybe(0.1):
            lines.append("p1.grad = None")
        lines.append("opt.step()")
    return Configuration(name, lines)


def scheduler(d: Draw) -> Configuration:
    name = d.choice(list(SCHEDULERS))
    args, choices = SCHEDULERS[name]
    kwargs = d.some(0.4, **choices)
    lr = d.choice(("0.1", "0.5", "0.1", "torch.tensor(0.1)", "1"))
    made = d.choice(
        (
            f"torch.optim.SGD([p], lr={lr})",
            f"torch.optim.SGD([p], lr={lr}, momentum=0.9)",
            f"torch.optim.Adam([p], lr={lr})",
            f"torch.optim.AdamW([{{'params': [p]}}], lr={lr})",
            f"torch.optim.SGD([{{'params': [p]}}, {{'params': [q], 'lr': 0.2}}], lr={lr}, momentum=0.5)",
        )
    )
    lines: list[Line] = [
        "p = torch.ones(2, requires_grad=True)",
        "q = torch.zeros(1, requires_grad=True)",
        f"opt = {made}",
    ]
    if d.maybe(0.15):
        args = [f"torch.tensor({value})" if value[:2] == "0." else value for value in args]
    if name == "SWALR":
        kwargs.setdefault("swa_lr", "0.05")
        lines.append(Call("torch.optim.swa_utils.SWALR", ["opt"], kwargs, "s"))
    elif name == "OneCycleLR":
        kwargs |= {"total_steps": "8"} if d.maybe() else {"epochs": "4", "steps_per_epoch": "2"}
        lines.append(Call("torch.optim.lr_scheduler.OneCycleLR", ["opt", *args], kwargs, "s"))
    else:
        lines.append(Call(f"torch.optim.lr_scheduler.{name}", ["opt", *args], kwargs, "s"))
    if d.maybe(0.2) and name not in ("ReduceLROnPlateau", "SWALR"):
        last = "torch.optim.lr_scheduler."
        lines.append(
            d.choice(
                (
                    f"s = {last}ChainedScheduler([s, {last}ExponentialLR(opt, 0.9)])",
                    f"s = {last}SequentialLR(opt, [{last}ConstantLR(opt, 0.1, 2), s], [2])",
                )
            )
        )
    for step in range(d.randint(1, 7)):
        lines.append("opt.step()")
        if name == "ReduceLROnPlateau":
            lines.append(f"s.step({d.choice((1.0, 0.5, 0.49, 2.0))})")
        elif name == "CosineAnnealingWarmRestarts" and d.maybe(0.3):
            lines.append(f"s.step({d.choice((1, 2.5, step, 7))})")
        else:
            lines.append("s.step()")
    lines += [
        "lr = s.get_last_lr()",
        "rates = [g['lr'] for g in opt.param_groups]",
        "momenta = [g.get('momentum', g.get('betas')) for g in opt.param_groups]",
    ]
    if d.maybe(0.3):
        lines += ["state = s.state_dict()", "s.load_state_dict(state)", "del state"]
    return Configuration(name, lines)


def initialiser(d: Draw) -> Configuration:
    name = d.choice(INITS)
    shape = d.choice(((3, 4), (4, 3), (2, 3, 3), (4, 2, 3, 3), (3,), (0, 3), (2, 2, 2, 2, 2)))
    fans = dict(mode=('"fan_in"', '"fan_out"'), nonlinearity=('"relu"', '"leaky_relu"', '"tanh"'), a=(0, 0.2))
    choices: dict[str, dict] = {
        "uniform_": dict(a=(-1, 0.0), b=(1.0, 2)),
        "normal_": dict(mean=(0, 1.0), std=(1, 0.5)),
        "dirac_": dict(groups=(1, 2)),
        "xavier_uniform_": dict(gain=(1, 2.0)),
        "xavier_normal_": dict(gain=(1, 2.0)),
        "kaiming_uniform_": fans,
        "kaiming_normal_": fans,
        "orthogonal_": dict(gain=(1, 2)),
        "trunc_normal_": dict(mean=(0, 1.0), std=(1, 0.5), a=(-2, -1), b=(2, 1)),
    }
    kwargs = d.some(0.4, **choices.get(name, {}))
    if name == "constant_":
        kwargs["val"] = d.choice(("1", "0.3"))
    if name == "sparse_":
        kwargs["sparsity"] = d.choice(("0.1", "0.5"))
    if d.maybe(0.3):
        kwargs["generator"] = (
            "torch.Generator().manual_seed(3)"
            if name not in ("constant_", "ones_", "zeros_", "eye_", "dirac_")
            else "None"
        )
    if kwargs.get("generator") == "None":
        del kwargs["generator"]
    dtype = d.dtype("float16") if name not in ("orthogonal_",) else "float32"
    return Configuration(
        name, [d.seeding(), f"w = {d.tensor(shape, dtype)}", Call(f"nn.init.{name}", ["w"], kwargs, "out")]
    )


def utility(d: Draw) -> Configuration:
    layer = d.choice(("nn.Linear(3, 4)", "nn.Conv2d(2, 3, 2)", "nn.ConvTranspose1d(2, 3, 2)", "nn.Linear(4, 4)"))
    x = {"L": f"torch.randn(2, {layer[10]})", "C": "torch.randn(2, 2, 4, 4)"}[layer[3]]
    if "Transpose" in layer:
        x = "torch.randn(2, 2, 4)"
    kind = d.choice(
        (
            "weight_norm",
            "spectral_norm",
            "parametrizations.weight_norm",
            "parametrizations.spectral_norm",
            "parametrizations.orthogonal",
            "clip_grad_norm_",
            "clip_grad_value_",
            "parameters_to_vector",
            "l1_unstructured",
            "ln_structured",
            "fuse",
        )
    )
    lines: list[Line] = [d.seeding(), f"m = {layer}", f"x = {x}.requires_grad_()"]
    if kind in ("weight_norm", "parametrizations.weight_norm"):
        lines.append(Call(f"nn.utils.{kind}", ["m"], d.some(0.5, dim=(0, 1, "None", -1)), "m"))
    elif kind in ("spectral_norm", "parametrizations.spectral_norm"):
        lines.append(
            Call(f"nn.utils.{kind}", ["m"], d.some(0.5, n_power_iterations=(1, 3), dim=(0, 1), eps=(1e-6,)), "m")
        )
    elif kind == "parametrizations.orthogonal":
        choices = dict(orthogonal_map=('"matrix_exp"', '"cayley"', '"householder"'), use_trivialization=FLAG)
        lines.append(Call(f"nn.utils.{kind}", ["m"], d.some(0.7, **choices), "m"))
    elif kind == "l1_unstructured":
        lines.append(Call("nn.utils.prune.l1_unstructured", ["m", '"weight"'], {"amount": d.choice(("0.5", "2"))}, "m"))
    elif kind == "ln_structured":
        lines.append(
            Call(
                "nn.utils.prune.ln_structured",
                ["m", '"weight"'],
                {"amount": d.choice(("0.5", "1")), "n": d.choice(("1", "2")), "dim": d.choice(("0", "1"))},
                "m",
            )
        )
    if kind == "fuse":
        lines += [
            "b = nn.BatchNorm2d(3).eval()",
            "m = nn.Conv2d(2, 3, 2).eval()",
            "b.running_mean += 0.5",
            "m = nn.utils.fusion.fuse_conv_bn_eval(m, b)",
            "x = torch.randn(2, 2, 4, 4)",
        ]
    lines += ["out = m(x)", "back(out)"]
    if kind == "clip_grad_norm_":
        kwargs = d.some(0.5, norm_type=(1.0, 2, "float('inf')"), error_if_nonfinite=FLAG, foreach=FLAG)
        lines.append(Call("nn.utils.clip_grad_norm_", ["m.parameters()", d.choice(("0.1", "100.0"))], kwargs, "norm"))
    if kind == "clip_grad_value_":
        lines.append(Call("nn.utils.clip_grad_value_", ["m.parameters()", "0.1"], d.some(foreach=FLAG), "norm"))
    if kind == "parameters_to_vector":
        lines += [
            "v = nn.utils.parameters_to_vector(m.parameters())",
            "nn.utils.vector_to_parameters(v * 2, m.parameters())",
        ]
    return Configuration(kind, lines)


def sequences(d: Draw) -> Configuration:
    lengths = [d.randint(1, 4) for _ in range(d.randint(1, 3))]
    first = d.choice(FLAG)
    kwargs = {"batch_first": first}
    lines: list[Line] = [
        d.seeding(),
        f"s = [torch.randn(n, 2, requires_grad=True) for n in {lengths}]",
        Call(
            "nn.utils.rnn.pad_sequence",
            ["s"],
            kwargs | d.some(0.4, padding_value=(1.0, -1), padding_side=('"left"', '"right"')),
            "x",
        ),
        Call(
            "nn.utils.rnn.pack_padded_sequence", ["x", str(lengths)], kwargs | {"enforce_sorted": d.choice(FLAG)}, "p"
        ),
        Call(
            "nn.utils.rnn.pad_packed_sequence",
            ["p"],
            kwargs | d.some(0.4, padding_value=(0.0, 2.0), total_length=(4, 6)),
            "out",
        ),
        "back(out)",
        Call("nn.utils.rnn.pack_sequence", ["s"], {"enforce_sorted": "False"}, "q"),
        "parts = nn.utils.rnn.unpack_sequence(q)",
    ]
    return Configuration("sequences", lines)


KINDS: list[Callable[[Draw], Configuration]] = [
    optimizer,
    optimizer,
    scheduler,
    scheduler,
    initialiser,
    utility,
    sequences,
]


def drawn(d: Draw) -> Configuration:
    return d.choice(KINDS)(d)
