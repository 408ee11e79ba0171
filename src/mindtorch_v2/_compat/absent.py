"""Names that programs import and that have no implementation here: using one says so."""

from typing import Any, NoReturn


def refuse(name: str, instead: str = "") -> NoReturn:
    raise NotImplementedError(f"mindtorch_v2 has no {name}." + (f" {instead}" if instead else ""))


def absent_function(name: str, instead: str = "") -> Any:
    """A function that can be imported and stored; calling it raises NotImplementedError."""

    def function(*args: Any, **kwargs: Any) -> Any:
        refuse(name, instead)

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Not implemented: raises NotImplementedError. {instead}".rstrip()
    return function


def absent_class(name: str, instead: str = "", base: type = object) -> Any:
    """A class that can be imported, subclassed and tested against; making an object of it raises."""

    def construct(cls: type, *args: Any, **kwargs: Any) -> Any:
        refuse(name, instead)

    short = name.rpartition(".")[2]
    return type(short, (base,), {"__new__": construct, "__doc__": f"Not implemented. {instead}".rstrip()})
