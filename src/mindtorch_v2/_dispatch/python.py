"""torch._dispatch.python: kernels written in Python in the place of compiled ones. All kernels here are."""

from contextlib import nullcontext

enable_python_dispatcher = no_python_dispatcher = nullcontext
# Operators that functionalization runs have one set of rules here, so that there is no other to compare with.
enable_crossref_functionalize = suspend_functionalization = nullcontext
