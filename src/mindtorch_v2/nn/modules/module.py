"""Module: the base of all layers and models."""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import mindtorch_v2 as torch

from ..._core.planning import changes
from ..._dispatch.keys import TORCH_DISPATCH_MASK
from ..parameter import Buffer, Parameter
from ._calls import ModuleCalls
from ._conversion import conversion
from ._hooks import (
    RemovableHandle,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._state import _EXTRA_STATE_KEY_SUFFIX, ModuleState, _IncompatibleKeys

__all__ = [
    "Module",
    "RemovableHandle",
    "_EXTRA_STATE_KEY_SUFFIX",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

# The hooks that run for every module.
_global_backward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Callable] = OrderedDict()

# The dicts of hooks every module has; a module pickled before one of them existed gets it when it is revived.
# What scripted modules and functions have in PyTorch.
OF_SCRIPTS = frozenset(("code", "code_with_constants", "get_debug_state", "graph", "graph_for", "inlined_graph", "save",
                        "save_to_buffer"))
_HOOK_DICTS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)

_TO_SIGNATURES = """
 * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, \
torch.memory_format memory_format = None)
 * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
 * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
"""


def _addindent(text: str, spaces: int) -> str:
    """The text with every line but the first indented."""
    return text.replace("\n", "\n" + spaces * " ")


class Module(ModuleCalls, ModuleState):
    """A part of a model: it holds parameters, buffers and child modules, and its forward computes."""

    dump_patches: bool = False
    training: bool
    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            name = type(self).__name__
            if kwargs:
                raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        for hooks in _HOOK_DICTS:
            own[hooks] = OrderedDict()
        own["_is_full_backward_hook"] = None
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # ---- registering parameters, buffers and child modules ----

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter under that name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_new_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{torch.typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                    "forward() method."
                )
            param = self._seen_by_hooks(_global_parameter_registration_hooks, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: torch.Tensor | None, persistent: bool = True) -> None:
        """Adds a buffer under that name; one that is not persistent stays out of the state_dict."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_new_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"cannot assign '{torch.typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = self._seen_by_hooks(_global_buffer_registration_hooks, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: "Module | None") -> None:
        """Adds a child module under that name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{torch.typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {torch.typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._modules[name] = self._seen_by_hooks(_global_module_registration_hooks, name, module)

    def register_module(self, name: str, module: "Module | None") -> None:
        """Adds a child module under that name."""
        self.add_module(name, module)

    def _check_new_name(self, kind: str, name: Any, members: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {torch.typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in members:
            raise KeyError(f"attribute '{name}' already exists")

    def _seen_by_hooks(self, hooks: OrderedDict[int, Callable], name: str, value: Any) -> Any:
        """The value, or what the last registration hook gave for it."""
        for hook in hooks.values():
            answer = hook(self, name, value)
            if answer is not None:
                value = answer
        return value

    # ---- attributes ----

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if (members := own.get("_parameters")) and name in members:
            return members[name]
        if (members := own.get("_buffers")) and name in members:
            return members[name]
        if (members := own.get("_modules")) and name in members:
            return members[name]
        text = f"'{type(self).__name__}' object has no attribute '{name}'"
        if name in OF_SCRIPTS and "_is_scripted" in own:
            text += (": torch.jit.trace and torch.jit.script give back the module itself in mindtorch_v2, which has no "
                     "TorchScript. torch.save its state_dict instead.")
        raise AttributeError(text)

    def __setattr__(self, name: str, value: Any) -> None:
        changes[0] += 1
        own = self.__dict__
        parameters, modules, buffers = own.get("_parameters"), own.get("_modules"), own.get("_buffers")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, keep=parameters)
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{torch.typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, keep=modules)
            modules[name] = self._seen_by_hooks(_global_module_registration_hooks, name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{torch.typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            modules[name] = self._seen_by_hooks(_global_module_registration_hooks, name, value)
        elif buffers is not None and name in buffers or isinstance(value, Buffer):
            self._set_buffer(name, value, buffers)
        else:
            super().__setattr__(name, value)

    def _set_buffer(self, name: str, value: Any, buffers: dict[str, torch.Tensor | None] | None) -> None:
        if value is not None and not isinstance(value, torch.Tensor):
            raise TypeError(
                f"cannot assign '{torch.typename(value)}' as buffer '{name}' "
                "(torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if buffers is None:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if isinstance(value, Buffer):
            self.register_buffer(name, value, value.persistent)
        else:
            buffers[name] = self._seen_by_hooks(_global_buffer_registration_hooks, name, value)

    def _forget(self, name: str, keep: dict[str, Any]) -> None:
        """Removes the name from everywhere but the dict it is about to be put into."""
        own = self.__dict__
        own.pop(name, None)
        for members in (own["_parameters"], own["_buffers"], own["_modules"]):
            if members is not keep:
                members.pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        changes[0] += 1
        for members in (self._parameters, self._buffers, self._modules):
            if name in members:
                del members[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())

    # ---- finding members by dotted name ----

    def get_submodule(self, target: str) -> "Module":
        """The descendant with that dotted name; "" is the module itself."""
        module: Module = self
        for item in () if target == "" else target.split("."):
            if not hasattr(module, item):
                raise AttributeError(f"{module._get_name()} has no attribute `{item}`")
            module = getattr(module, item)
            if not isinstance(module, Module):
                raise AttributeError(f"`{item}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: "Module", strict: bool = False) -> None:
        """Puts `module` at that dotted name; `strict` requires that a module is there already."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with that dotted name."""
        parameter = self._get_member(target)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> torch.Tensor:
        """The buffer with that dotted name."""
        path, _, name = target.rpartition(".")
        buffer = self._get_member(target)
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    def _get_member(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return getattr(module, name)

    # ---- walking through members ----

    def _named_members(
        self,
        get_members_fn: Callable[["Module"], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Dotted names and members that `get_members_fn` finds in the module and, if `recurse`, its descendants."""
        seen = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in owners:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield (f"{path}.{name}" if path else name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Dotted names and parameters."""
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Dotted names and buffers."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def buffers(self, recurse: bool = True) -> Iterator[torch.Tensor]:
        """The buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """Names and direct child modules, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator["Module"]:
        """The direct child modules, each once."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set["Module"] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, "Module"]]:
        """Dotted names and modules: this one first, then its descendants in order."""
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator["Module"]:
        """This module and its descendants."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    # ---- changing all members ----

    def apply(self, fn: Callable[["Module"], None]) -> Self:
        """Calls `fn` with every descendant, then with the module itself."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Replaces every parameter's data, gradient and every buffer by what `fn` makes of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            old_gradient = parameter.grad
            with torch.no_grad():
                converted = fn(parameter)
                gradient = None if old_gradient is None else fn(old_gradient)
            if converted._keys & TORCH_DISPATCH_MASK:  # more than its data: what it keeps its elements in
                torch.utils.swap_tensors(parameter, Parameter(converted, parameter.requires_grad))
                parameter.grad = gradient
            elif conversion.swaps:
                self._swap(name, parameter, Parameter(converted, parameter.requires_grad))
                if old_gradient is not None and gradient is not None:
                    if gradient is not old_gradient:
                        self._swap(f"{name}.grad", old_gradient, gradient.requires_grad_(old_gradient.requires_grad))
                    parameter.grad = old_gradient
            elif converted.is_meta == parameter.is_meta and not conversion.overwrites:
                parameter.data = converted  # the same objects, so that optimizers keep hold of them
                if old_gradient is not None and gradient is not None:
                    old_gradient.data = gradient
                    parameter.grad = old_gradient
            else:
                renewed = Parameter(converted, parameter.requires_grad)
                if old_gradient is not None and gradient is not None:
                    renewed.grad = gradient.requires_grad_(old_gradient.requires_grad)
                self._parameters[name] = renewed
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _swap(self, name: str, tensor: torch.Tensor, other: torch.Tensor) -> None:
        """Exchanges a tensor of this module for another; the tensor is unchanged if it cannot be."""
        tensor.grad = None
        try:
            torch.utils.swap_tensors(tensor, other)
        except RuntimeError as error:
            raise RuntimeError(f"_apply(): Couldn't swap {self._get_name()}.{name}") from error

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves parameters and buffers to a device, floating ones also to a dtype, 4-d and 5-d ones to a layout."""
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may change, "
                    "and some modules might not work as expected when using complex tensors as parameters or buffers. "
                    "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
                    "if a complex module does not work as expected.",
                    stacklevel=2,
                )

        def convert(tensor: torch.Tensor) -> torch.Tensor:
            convertible = tensor.is_floating_point() or tensor.is_complex()
            target_dtype = dtype if convertible else None
            if memory_format is not None and tensor.dim() in (4, 5):
                return tensor.to(device, target_dtype, non_blocking, memory_format=memory_format)
            try:
                return tensor.to(device, target_dtype, non_blocking)
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
                    "when moving module from meta to a different device."
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Moves parameters and buffers to a device without their values."""
        return self._apply(lambda tensor: torch.empty_like(tensor, device=device), recurse=recurse)

    def type(self, dst_type: Any) -> Self:
        """Casts all parameters and buffers."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _cast_floating(self, dtype: Any) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self) -> Self:
        """Casts floating parameters and buffers to float32."""
        return self._cast_floating(torch.float32)

    def double(self) -> Self:
        """Casts floating parameters and buffers to float64."""
        return self._cast_floating(torch.float64)

    def half(self) -> Self:
        """Casts floating parameters and buffers to float16."""
        return self._cast_floating(torch.float16)

    def bfloat16(self) -> Self:
        """Casts floating parameters and buffers to bfloat16."""
        return self._cast_floating(torch.bfloat16)

    def cpu(self) -> Self:
        """Moves parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Moves parameters and buffers to a GPU."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def npu(self, device: Any = None) -> Self:
        """Moves parameters and buffers to an Ascend NPU."""
        return self._apply(lambda tensor: tensor.npu(device))

    def share_memory(self) -> Self:
        """Moves parameters and buffers to shared memory."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def train(self, mode: bool = True) -> Self:
        """Sets training mode, here and in all descendants."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Sets evaluation mode, here and in all descendants."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets whether the parameters require grad."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops all parameters' gradients, or fills them with zeros."""
        for parameter in self.parameters():
            gradient = parameter.grad
            if gradient is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                if gradient.grad_fn is not None:
                    gradient.detach_()
                else:
                    gradient.requires_grad_(False)
                gradient.zero_()

    # ---- printing, copying ----

    def _replicate_for_data_parallel(self) -> Self:
        """A copy without parameters, whose dictionaries of children and buffers are its own."""
        made = self.__new__(type(self))
        made.__dict__ = {**self.__dict__, "_parameters": {}, "_buffers": self._buffers.copy(),
                         "_modules": self._modules.copy(), "_is_replica": True}
        return made

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What repr shows of the module's own settings; for subclasses to define."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        lines = extra_lines + child_lines
        if not lines:
            return f"{self._get_name()}()"
        if len(extra_lines) == 1 and not child_lines:
            return f"{self._get_name()}({extra_lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for hooks in _HOOK_DICTS:
            self.__dict__.setdefault(hooks, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)


def _parse_to(args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, non_blocking and memory_format of a call of Module.to."""
    kwargs = dict(kwargs)
    memory_format = kwargs.pop("memory_format", None)
    first = args[0] if args else next((kwargs[name] for name in ("tensor", "dtype") if name in kwargs), None)
    names: tuple[str, ...]
    if isinstance(first, torch.Tensor):
        names = ("tensor", "non_blocking", "copy")
    elif isinstance(first, torch.dtype) and "device" not in kwargs:
        names = ("dtype", "non_blocking", "copy")
    else:
        names = ("device", "dtype", "non_blocking", "copy")
    bound = dict(zip(names, args, strict=False))
    dtype = kwargs.get("dtype", bound.get("dtype"))
    misfits = len(args) > len(names) or bound.keys() & kwargs.keys() or kwargs.keys() - set(names)
    bound.update(kwargs)
    non_blocking = bound.get("non_blocking", False)
    if misfits or not isinstance(non_blocking, bool) or not isinstance(dtype, torch.dtype | None):
        got = [_argument_type(value) for value in args]
        got += [f"{name}={_argument_type(value)}" for name, value in kwargs.items()]
        listed = ", ".join(got) + ("" if args else ", ")
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({listed}), but expected one of:{_TO_SIGNATURES}"
        )
    if "copy" in bound:
        raise RuntimeError(".to() does not accept copy argument")
    device = bound.get("device")
    if "tensor" in bound:
        device, dtype = bound["tensor"].device, bound["tensor"].dtype
    return None if device is None else torch.device(device), dtype, non_blocking, memory_format


def _argument_type(value: Any) -> str:
    return "torch.dtype" if isinstance(value, torch.dtype) else type(value).__name__
