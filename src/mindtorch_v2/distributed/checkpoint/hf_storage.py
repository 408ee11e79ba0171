"""Checkpoints of several processes in safetensors files: not here."""

from ..._compat.absent import absent_class

HuggingFaceStorageReader = absent_class("torch.distributed.checkpoint.hf_storage.HuggingFaceStorageReader")
HuggingFaceStorageWriter = absent_class("torch.distributed.checkpoint.hf_storage.HuggingFaceStorageWriter")
