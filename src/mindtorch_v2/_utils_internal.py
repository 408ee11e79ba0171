"""Places and settings that PyTorch's tests ask for."""

import os
import tempfile

IS_FBSOURCE = False
USE_GLOBAL_DEPS = USE_RTLD_GLOBAL_WITH_LIBTORCH = False
TEST_MASTER_ADDR = "127.0.0.1"
TEST_MASTER_PORT = 29500
_PARENT = os.path.dirname(os.path.dirname(__file__))


def get_file_path(*path_components: str) -> str:
    """A path below the folder that this package is in."""
    return os.path.join(_PARENT, *path_components)


def get_file_path_2(*path_components: str) -> str:
    return os.path.join(*path_components)


def get_writable_path(path: str) -> str:
    """The path itself if it can be written to, else that of a temporary folder."""
    return path if os.access(path, os.W_OK) else tempfile.mkdtemp(suffix=os.path.basename(path))


def prepare_multiprocessing_environment(path: str) -> None:
    """Nothing: processes find the package as this one does."""


def log_compilation_event(metrics: object) -> None:
    """Nothing is logged."""
