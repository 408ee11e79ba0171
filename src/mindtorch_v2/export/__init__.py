"""torch.export: not implemented; the names are here for programs that import them."""

from .._compat.absent import absent_class, absent_function

__all__ = ["Dim", "ExportedProgram", "export", "load", "register_dataclass", "save"]

_WHY = "Run the module itself: there is no ahead-of-time graph here."
export = absent_function("torch.export.export", _WHY)
load, save = absent_function("torch.export.load", _WHY), absent_function("torch.export.save", _WHY)
register_dataclass = absent_function("torch.export.register_dataclass", _WHY)
ExportedProgram, Dim = absent_class("torch.export.ExportedProgram", _WHY), absent_class("torch.export.Dim", _WHY)
