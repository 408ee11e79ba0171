"""The storage for a place."""

import os
from typing import Any

from .filesystem import FileSystemReader, FileSystemWriter


def storage_at(storage: Any, checkpoint_id: str | os.PathLike | None, kind: type) -> Any:
    """The storage that was given, or one of files, told that a checkpoint begins."""
    if storage is None:
        if checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
        assert issubclass(kind, FileSystemReader | FileSystemWriter)
        if not kind.validate_checkpoint_id(checkpoint_id):
            raise RuntimeError("Cannot detect which StorageReader or StorageWriter to use. Please specify the "
                               "storage_reader/storage_writer.")
        storage = kind(checkpoint_id)
    if checkpoint_id is not None:
        storage.reset(checkpoint_id)
    return storage
