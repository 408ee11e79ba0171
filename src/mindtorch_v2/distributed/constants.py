"""Defaults of groups."""

from ._groups import default_pg_timeout

__all__ = ["default_pg_timeout"]
