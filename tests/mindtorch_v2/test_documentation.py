"""The docstrings: words and an example for each operator and function, and the examples give what they show."""

import doctest
import inspect
import warnings

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.npu.families import runs
from mindtorch_v2._ops._declare import documentation
from mindtorch_v2._ops._declare.op import DECLARATIONS, PUBLIC

# Of several overloads the first has the words.
# Functions that PyTorch has among the public ones, but with an underscore, are for its own use.
OPERATORS = {operators[0].schema.base_name: operators[0] for place in PUBLIC.values() for operators in place.values()
             if not operators[0].schema.base_name.startswith("_")}
FAMILIES = sorted({operator.declaration.module.partition("_ops.")[2] for operator in OPERATORS.values()})


PLACES = {"torch": torch, "Tensor": torch.Tensor, "nn_functional": torch.nn.functional, "nn_init": torch.nn.init,
          "func": torch.func, "autograd": torch.autograd}
# What stands there without an example.
WITHOUT = (
    "Not implemented",  # it only raises
    "NotImplementedError",  # so do these
    "Removed from PyTorch",  # it only raises
    "Raises RuntimeError",  # to devices that are not here
    "False: no tensor here is of that kind",
)


def public_of(place):
    """The functions, methods, properties and classes of a place that users name, with their docstrings.

    Not exceptions, which are caught and not called.
    """
    holder = PLACES[place]
    names = {*getattr(holder, "__all__", dir(holder)), *(torch._HOME if place == "torch" else ())}
    for name in sorted(name for name in names if not name.startswith("_")):
        value = inspect.getattr_static(holder, name, None) or getattr(holder, name)
        if inspect.isclass(value) and issubclass(value, Exception):
            continue
        if callable(value) or isinstance(value, (property, staticmethod)):
            yield name, getattr(holder, name).__doc__ or ""


def globals_of_examples():
    return {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_operator_has_words_and_an_example(family):
    for name, operator in OPERATORS.items():
        if operator.declaration.module.endswith(f"_ops.{family}") and operator.declaration.inplace_of is None:
            text = documentation.text_on(operator)
            assert ">>> " in text, f"docs/{family}.md says nothing of {name}, or shows no example"
            assert len(text.partition(">>> ")[0].split()) >= 5, f"docs/{family}.md says too little of {name}"


@pytest.mark.parametrize("place", ["torch", "Tensor"])
def test_docstrings_say_how_devices_run_an_operator(place):
    for name, operators in PUBLIC[place].items():
        said = documentation.devices_of(operators[0])
        assert said in (getattr(PLACES[place], name).__doc__ or ""), name
        assert ("NPUs have none" in said) is not runs(operators[0]), name


def test_kernels_of_devices_are_named():
    assert documentation.devices_of(PUBLIC["torch"]["softmax"][0]) == (
        "Kernels of devices: cpu `softmax.py`; cuda `softmax.py`; npu `aclnnSoftmax`; else its family's.")


@pytest.mark.parametrize("place", PLACES)
def test_every_function_has_words_and_an_example(place):
    silent = [name for name, text in public_of(place)
              if ">>> " not in text and not text.startswith(WITHOUT) and "written into the tensor itself" not in text]
    assert not silent, f"docs/functions/{place}.md says nothing of these, or shows no example"


@pytest.mark.parametrize("family", [*FAMILIES, *(f"functions.{place}" for place in PLACES)])
def test_examples_give_what_they_show(family):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for name, text in documentation.sections(family).items():
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runner.run(doctest.DocTestParser().get_doctest(text, globals_of_examples(), name, family, 0))
    assert not runner.summarize(verbose=False).failed


def test_sections_are_of_operators_of_their_family():
    known = {(d.module.partition("_ops.")[2], d.operator.schema.base_name) for d in DECLARATIONS.values()}
    known |= {(f"functions.{place}", name) for place, holder in PLACES.items() for name in dir(holder)}
    known |= {("functions.torch", name) for name in torch._HOME}
    # Functions of other names that front an operator share its section.
    known |= {("class_loss", "cross_entropy"), ("grid", "affine_grid")}
    for file in documentation.FOLDER.rglob("*.md"):
        family = ".".join(file.relative_to(documentation.FOLDER).with_suffix("").parts)
        for name in documentation.sections(family):
            assert (family, name) in known, f"{file.name}: there is no {name} in that family"


def test_functions_show_them():
    assert torch.softmax.__doc__.startswith("Elements along a dimension")
    assert torch.Tensor.softmax.__doc__ == torch.softmax.__doc__
    assert torch.Tensor.view.__doc__.startswith("The same memory with another shape")
    assert torch.Tensor.relu_.__doc__.startswith("`relu`, written into the tensor itself")
    assert torch.nn.functional.cross_entropy.__doc__.count("-log(softmax(x)[target])") == 1
    assert "aten::softmax(Tensor self, int dim" in torch.softmax.__doc__
