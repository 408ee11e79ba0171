"""What is known of operators beside their kernels: functions for fake tensors, and rules for `__torch_dispatch__`."""

from collections.abc import Callable
from typing import Any

from .._torch_dispatch import DISPATCH_RULES
from .fake_impl import FakeImplHolder
from .utils import Kernel, RegistrationHandle, get_source


class TorchDispatchRuleHolder:
    """The rules of one operator, by class of tensors or of modes."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname
        self._data: dict[Any, Kernel] = {}

    def register(self, torch_dispatch_class: Any, func: Callable) -> RegistrationHandle:
        if self.find(torch_dispatch_class) is not None:
            raise RuntimeError(f"{torch_dispatch_class} already has a `__torch_dispatch__` rule registered for "
                               f"{self.qualname}")
        kernel = Kernel(func, get_source())
        self._data[torch_dispatch_class] = kernel
        DISPATCH_RULES.setdefault(self.qualname, {})[torch_dispatch_class] = func

        def deregister() -> None:
            self._data.pop(torch_dispatch_class, None)
            rules = DISPATCH_RULES.get(self.qualname, {})
            rules.pop(torch_dispatch_class, None)
            if not rules:
                DISPATCH_RULES.pop(self.qualname, None)

        return RegistrationHandle(deregister)

    def find(self, torch_dispatch_class: Any) -> Kernel | None:
        return self._data.get(torch_dispatch_class)


class SimpleOperatorEntry:
    """One operator's."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname
        self.fake_impl = FakeImplHolder(qualname)
        self.torch_dispatch_rules = TorchDispatchRuleHolder(qualname)

    @property
    def abstract_impl(self) -> FakeImplHolder:
        return self.fake_impl


class SimpleLibraryRegistry:
    """The entries by qualified name."""

    def __init__(self) -> None:
        self._data: dict[str, SimpleOperatorEntry] = {}

    def find(self, qualname: str) -> SimpleOperatorEntry:
        if qualname not in self._data:
            self._data[qualname] = SimpleOperatorEntry(qualname)
        return self._data[qualname]


singleton = SimpleLibraryRegistry()
