"""torch.hub: weights from a URL into a local folder, and entry points of local repositories."""

import hashlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from ._compat.absent import refuse

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_BLOCK = 128 * 1024
_chosen: dict[str, str] = {}


def _get_torch_home() -> str:
    cache = os.getenv("XDG_CACHE_HOME", os.path.join(os.path.expanduser("~"), ".cache"))
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of downloaded files: the one set, or `hub` in $TORCH_HOME."""
    return _chosen.get("folder") or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike) -> None:
    _chosen["folder"] = os.path.expanduser(os.fspath(d))


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Downloads, checks the SHA-256 prefix, and puts the complete file in place."""
    from ._files.target import target

    with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as source:
        length = source.headers.get("Content-Length")
        bar = _progress(int(length) if length else None, progress)
        digest = hashlib.sha256()
        try:
            with target(os.path.expanduser(dst), zipped=False) as (file, _):
                while block := source.read(_BLOCK):
                    file.write(block)
                    digest.update(block)
                    if bar is not None:
                        bar.update(len(block))
                if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
                    raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
        finally:
            if bar is not None:
                bar.close()


def __getattr__(name: str) -> Any:
    if name == "tqdm":
        return importlib.import_module("tqdm").tqdm
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _progress(total: int | None, wanted: bool) -> Any:
    if not wanted or importlib.util.find_spec("tqdm") is None:
        return None
    return __getattr__("tqdm")(total=total, unit="B", unit_scale=True, unit_divisor=1024)


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True,
                             check_hash: bool = False, file_name: str | None = None, weights_only: bool = False) -> Any:
    """What the file of a URL holds, from the local folder if it is there already."""
    from .serialization import load as load_file

    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    cached = folder / name
    if not cached.exists():
        sys.stderr.write(f'Downloading: "{url}" to {cached}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, str(cached), found.group(1) if found else None, progress)
    return load_file(cached, map_location=map_location, weights_only=weights_only)


def _entry_points(repo_or_dir: str, source: str) -> Any:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        refuse("torch.hub for repositories on GitHub", "Clone the repository and say source='local'.")
    path = os.path.join(repo_or_dir, "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise FileNotFoundError(f"no hubconf.py in {repo_or_dir}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, repo_or_dir)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(repo_or_dir)
    return module


def _entry(repo_or_dir: str, model: str, source: str) -> Any:
    function = getattr(_entry_points(repo_or_dir, source), model, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


def list(github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None,  # noqa: A001
         verbose: bool = True, source: str = "local") -> Any:
    """Names of the entry points of a local repository."""
    module = _entry_points(github, source)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None,  # noqa: A001
         source: str = "local") -> str | None:
    """The documentation of an entry point."""
    return _entry(github, model, source).__doc__


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", trust_repo: Any = None,
         force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any) -> Any:
    """What an entry point of a repository gives."""
    return _entry(repo_or_dir, model, source)(*args, **kwargs)
