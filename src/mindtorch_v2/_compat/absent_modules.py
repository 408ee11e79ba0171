"""Modules of PyTorch of which only the names are here: one table, and what makes modules of it on import."""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NamedTuple

from .absent import absent_class, absent_function

_PACKAGE = __name__.partition(".")[0]


class Names(NamedTuple):
    """The names of a module. `Name:place` is a class derived from that of ours, so that tests against it answer no."""

    why: str = ""  # said when one is used
    classes: str = ""
    functions: str = ""


# By place in the package. `_torchscript` gathers classes that PyTorch has in `torch` and `torch._C`.
ABSENT_MODULES: dict[str, Names] = {
    "_torchscript": Names("There is no TorchScript here: programs stay Python.", """
                AggregationType AliasDb AnyType ArgumentSpec AwaitType BenchmarkConfig Block BoolType BufferDict
        Capsule         ClassType Code CompilationUnit CompleteArgumentSpec ComplexType ConcreteModuleType DictType
        EnumType ErrorReport FloatType         FutureType Gradient Graph InferredType IntType InterfaceType ListType
        LiteScriptModule Node NoneType NumberType         OptionalType ParameterDict PyObjectType RRefType ScriptDict
        ScriptList ScriptMethod ScriptObject StreamObjType         StringType SymBoolType SymIntType TensorType
        ThroughputBenchmark TupleType Type UnionType Use Value"""),
    "ao.ns": Names(),
    "ao.pruning": Names("Use torch.nn.utils.prune.",
                        "BaseScheduler BaseSparsifier CubicSL LambdaSL WeightNormSparsifier"),
    "backends.xeon": Names(),
    "distributed.checkpoint.hf_storage": Names("", "HuggingFaceStorageReader HuggingFaceStorageWriter"),
    "export": Names("Run the module itself: there is no ahead-of-time graph here.", "Dim ExportedProgram",
                    "export load register_dataclass save"),
    "sparse._triton_ops": Names("There is no Triton here.", "", """
        bsr_dense_addmm bsr_dense_mm bsr_scatter_mm broadcast_batch_dims scatter_mm tile_to_blocksize"""),
    "sparse._triton_ops_meta": Names("There is no Triton here.", "", "get_meta minimize update"),
    "sparse.semi_structured": Names("Kernels that skip two of four weights are those of NVIDIA's libraries.", """
        SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS""",
                                    "to_sparse_semi_structured"),
}


def fill(module: ModuleType, place: str, names: Names) -> None:
    """Gives a module names that raise when they are used."""
    for entry in names.classes.split():
        name, _, base = entry.partition(":")
        home, _, kind = f"{_PACKAGE}.{base}".rpartition(".")
        derived_from = getattr(importlib.import_module(home), kind) if base else object
        setattr(module, name, absent_class(f"torch.{place}.{name}", names.why, derived_from))
    for name in names.functions.split():
        setattr(module, name, absent_function(f"torch.{place}.{name}", names.why))
    module.__all__ = [*(c.partition(":")[0] for c in names.classes.split()),  # type: ignore[attr-defined]
                      *names.functions.split()]


class _Finder:
    """Finds the modules of the table in our package; as the last finder, it is asked for what has no file."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        place = name.removeprefix(_PACKAGE + ".")
        if place not in ABSENT_MODULES or place == name:
            return None
        return ModuleSpec(name, _Finder, is_package=True)  # type: ignore[arg-type]  # programs look for modules in them

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name, "Names that programs import; using one raises NotImplementedError.")

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        place = module.__name__.removeprefix(_PACKAGE + ".")
        fill(module, place, ABSENT_MODULES[place])


def attach() -> None:
    """Lets the modules of the table be imported."""
    sys.meta_path.append(_Finder)  # type: ignore[arg-type]
