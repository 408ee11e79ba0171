"""Distributed functions that change modules in place."""

from .contract import _get_registry, contract

__all__ = ["_get_registry", "contract"]
