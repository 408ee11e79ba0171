"""Schedules: what is checked, warned of and saved. Their rates are compared with PyTorch's in test_trajectories.py."""

import copy
import warnings
import weakref

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import optim
from mindtorch_v2.optim import lr_scheduler as schedules


def sgd(groups=1, **options):
    params = [{"params": [torch.nn.Parameter(torch.ones(1))]} for _ in range(groups)]
    return optim.SGD(params, **{"lr": 0.1, "momentum": 0.9, **options})


def adagrad():
    return optim.Adagrad([torch.nn.Parameter(torch.ones(1))])


SHARED = sgd()
MAKERS = {
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o: schedules.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda o: schedules.StepLR(o, 2),
    "MultiStepLR": lambda o: schedules.MultiStepLR(o, [2, 4, 4]),
    "ConstantLR": schedules.ConstantLR,
    "LinearLR": schedules.LinearLR,
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.9),
    "PolynomialLR": schedules.PolynomialLR,
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 3, 2),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.1, 0.5, step_size_up=3),
    "OneCycleLR": lambda o: schedules.OneCycleLR(o, 0.5, total_steps=20),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.ConstantLR(o), schedules.ExponentialLR(o, 0.9)], [3]
    ),
    "ChainedScheduler": lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o), schedules.StepLR(o, 2)]),
    "SWALR": lambda o: optim.swa_utils.SWALR(o, 0.05),
}


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: schedules.StepLR(3, 2), TypeError, "int is not an Optimizer"),
        (lambda: schedules.LambdaLR(sgd(2), [lambda e: 1]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (lambda: schedules.ConstantLR(sgd(), factor=2), ValueError,
         "Constant multiplicative factor expected to be between 0 and 1."),
        (lambda: schedules.LinearLR(sgd(), start_factor=0), ValueError,
         "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."),
        (lambda: schedules.LinearLR(sgd(), end_factor=2), ValueError,
         "Ending multiplicative factor expected to be between 0 and 1."),
        (lambda: schedules.SequentialLR(sgd(), [], []), ValueError,
         "SequentialLR expects at least one scheduler, but got no scheduler."),
        (lambda: schedules.SequentialLR(SHARED, [schedules.ConstantLR(SHARED)], [1]), ValueError,
         "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
         "points, but got number of schedulers 1 and the number of milestones to be equal to 1"),
        (lambda: schedules.SequentialLR(SHARED, [schedules.ReduceLROnPlateau(SHARED)] * 2, [1]), ValueError,
         "SequentialLR does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be specified "
         "when calling `step`, but got one at index 0 in the given schedulers sequence."),
        (lambda: schedules.SequentialLR(SHARED, [3, 4], [1]), TypeError,
         "SequentialLR at index 0 should have `optimizer` as its attribute."),
        (lambda: schedules.ChainedScheduler([]), ValueError,
         "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler."),
        (lambda: schedules.ReduceLROnPlateau(sgd(), factor=1.0), ValueError, "Factor should be < 1.0."),
        (lambda: schedules.ReduceLROnPlateau(sgd(2), min_lr=[1]), ValueError, "expected 2 min_lrs, got 1"),
        (lambda: schedules.ReduceLROnPlateau(sgd(), mode="x"), ValueError, "mode x is unknown!"),
        (lambda: schedules.ReduceLROnPlateau(sgd(), threshold_mode="x"), ValueError, "threshold mode x is unknown!"),
        (lambda: schedules.CyclicLR(sgd(), 0.1, 0.5, mode="x"), ValueError, "mode is invalid and scale_fn is None"),
        (lambda: schedules.CyclicLR(adagrad(), 0.1, 0.5), ValueError,
         "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"),
        (lambda: schedules.CyclicLR(sgd(2), [0.1], 0.5), ValueError,
         "base_lr must have the same length as optimizer.param_groups. base_lr has 1 values, param_groups has 2."),
        (lambda: schedules.CosineAnnealingWarmRestarts(sgd(), 0), ValueError,
         "Expected positive integer T_0, but got 0"),
        (lambda: schedules.CosineAnnealingWarmRestarts(sgd(), 1, 1.5), ValueError,
         "Expected integer T_mult >= 1, but got 1.5"),
        (lambda: schedules.CosineAnnealingWarmRestarts(sgd(), 1).step(-1), ValueError,
         "Expected non-negative epoch, but got -1"),
        (lambda: schedules.OneCycleLR(sgd(), 0.1), ValueError,
         "You must define either total_steps OR (epochs AND steps_per_epoch)"),
        (lambda: schedules.OneCycleLR(sgd(), 0.1, epochs=-1, steps_per_epoch=1), ValueError,
         "Expected positive integer epochs, but got -1"),
        (lambda: schedules.OneCycleLR(sgd(), 0.1, total_steps=5, pct_start=2), ValueError,
         "Expected float between 0 and 1 pct_start, but got 2"),
        (lambda: schedules.OneCycleLR(sgd(), 0.1, total_steps=5, anneal_strategy="x"), ValueError,
         "anneal_strategy must be one of 'cos' or 'linear', instead got x"),
        (lambda: optim.swa_utils.SWALR(sgd(), 0.1, anneal_epochs=-1), ValueError,
         "anneal_epochs must be equal or greater than 0, got -1"),
        (lambda: schedules.LRScheduler(sgd()), NotImplementedError, ""),
    ],
)  # fmt: skip
def test_errors(make, kind, message):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == message


def test_resuming_wants_the_initial_rate():
    with pytest.raises(KeyError, match="param 'initial_lr' is not specified in param_groups"):
        schedules.StepLR(sgd(), 2, last_epoch=3)
    optimizer = sgd(lr=0.05)
    optimizer.param_groups[0]["initial_lr"] = 0.1
    assert schedules.StepLR(optimizer, 2, last_epoch=2).get_last_lr() == [0.05]


def test_other_optimizers_are_refused():
    with pytest.raises(ValueError, match=r"(?s)got scheduler ConstantLR at index 1 has SGD .*different from SGD"):
        schedules.ChainedScheduler([schedules.ConstantLR(SHARED), schedules.ConstantLR(sgd())])


def test_order_of_steps_is_watched():
    scheduler = schedules.StepLR(sgd(), 2)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`."):
        scheduler.step()
    optimizer = sgd()
    scheduler = schedules.StepLR(optimizer, 2)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match=r"Seems like `optimizer.step\(\)` has been overridden"):
        scheduler.step()
    optimizer = sgd()
    scheduler = schedules.StepLR(optimizer, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()


def test_get_lr_and_epoch_warn():
    scheduler = schedules.StepLR(sgd(), 2)
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        assert scheduler.get_lr() == [0.1]
    scheduler.optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step"):
        scheduler.step(5)
    assert scheduler.get_last_lr() == [0.1 * 0.1**2] and scheduler.last_epoch == 5


@pytest.mark.parametrize("name", MAKERS)
def test_a_loaded_schedule_goes_on_the_same_way(name):
    first, second = sgd(), sgd()
    schedule = MAKERS[name](first)
    for _ in range(4):
        first.step()
        schedule.step()
    twin = MAKERS[name](second)
    twin.load_state_dict(copy.deepcopy(schedule.state_dict()))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(4):
        for optimizer, scheduler in ((first, schedule), (second, twin)):
            optimizer.step()
            scheduler.step()
        assert schedule.get_last_lr() == twin.get_last_lr() == [first.param_groups[0]["lr"]]


def test_state_has_pytorchs_form():
    base = {"base_lrs": [0.1], "last_epoch": 0, "_step_count": 1, "_is_initial": False,
            "_get_lr_called_within_step": False}  # fmt: skip
    assert schedules.StepLR(sgd(), 2).state_dict() == {**base, "step_size": 2, "gamma": 0.1, "_last_lr": [0.1]}

    class Half:
        def __init__(self):
            self.factor = 0.5

        def __call__(self, epoch):
            return self.factor

    saved = schedules.LambdaLR(sgd(), Half()).state_dict()
    assert saved == {**base, "lr_lambdas": [{"factor": 0.5}], "_last_lr": [0.05]}
    assert schedules.LambdaLR(sgd(), lambda epoch: 1.0).state_dict()["lr_lambdas"] == [None]
    saved["lr_lambdas"][0]["factor"] = 0.25
    loaded = schedules.LambdaLR(sgd(), Half())
    loaded.load_state_dict(saved)
    loaded.optimizer.step()
    loaded.step()
    assert loaded.get_last_lr() == [0.025]


def test_tensor_rates_change_in_place():
    rate = torch.tensor(0.1)
    optimizer = sgd(lr=rate)
    scheduler = schedules.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == pytest.approx(0.05)
    assert scheduler.base_lrs[0].item() == pytest.approx(0.1) and scheduler.get_last_lr()[0] is not rate


def test_one_cycle_ends():
    optimizer = sgd()
    scheduler = schedules.OneCycleLR(optimizer, 0.1, total_steps=2)
    for _ in range(2):
        optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 3 times. The specified number of total steps is 2"):
        scheduler.step()


def test_plateau_follows_new_groups():
    optimizer = sgd()
    scheduler = schedules.ReduceLROnPlateau(optimizer, patience=0)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
    scheduler.step(1.0)
    scheduler.step(torch.tensor(2.0))
    assert [group["lr"] for group in optimizer.param_groups] == [0.1 * 0.1] * 2 and scheduler.min_lrs == [0, 0]


def test_own_schedule():
    class Mine(schedules._LRScheduler):
        def get_lr(self):
            return [base / (1 + self.last_epoch) for base in self.base_lrs]

    optimizer = sgd()
    scheduler = Mine(optimizer)
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.05] and isinstance(scheduler, schedules.LRScheduler)


@pytest.mark.parametrize("make", [
    lambda optimizer, rate: schedules.CyclicLR(optimizer, 0.01, rate, cycle_momentum=False),
    lambda optimizer, rate: schedules.OneCycleLR(optimizer, rate, total_steps=5, cycle_momentum=False),
    lambda optimizer, rate: torch.optim.swa_utils.SWALR(optimizer, rate),
])
def test_a_rate_given_as_a_tensor_is_not_written_to(make):
    rate = torch.tensor(0.5)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=torch.tensor(0.1))
    schedule = make(optimizer, rate)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    assert rate.item() == 0.5


def test_warm_restarts_count_within_a_run():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = schedules.CosineAnnealingWarmRestarts(optimizer, 2, T_mult=2)
    schedule.T_cur = 5  # as after loading another run's place
    schedule.step()
    assert (schedule.T_cur, schedule.T_i) == (0, 4)


def test_a_first_milestone_of_zero_skips_the_first_schedule():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    parts = [schedules.ConstantLR(optimizer, 0.3), schedules.ConstantLR(optimizer, 0.1)]
    assert schedules.SequentialLR(optimizer, parts, [0]).get_last_lr() == [0.1]


def test_multiplicative_schedules_take_functions():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    with pytest.raises(TypeError, match="lr_lambda should be a function, but got float"):
        schedules.MultiplicativeLR(optimizer, 0.95)


def test_a_schedule_keeps_no_reference_to_its_optimizer_in_it():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedules.ConstantLR(optimizer)
    gone = weakref.ref(optimizer)
    del optimizer
    assert gone() is None


def test_cycles_say_where_pytorch_has_them():
    assert schedules.OneCycleLR.__module__ == schedules.CyclicLR.__module__ == schedules.__name__
