"""What the NPU backend raises."""

from .facts import MEANINGS


class NpuError(RuntimeError):
    """A call into CANN that failed: `call` is the function, `code` what it returned, `detail` CANN's own words."""

    def __init__(self, call: str, code: int, detail: str = "", doing: str = "") -> None:
        self.call, self.code, self.detail = call, code, detail
        meaning = MEANINGS.get(code)
        text = f"{call} failed with code {code}{f' ({meaning})' if meaning else ''}"
        super().__init__(f"{text}{f' in {doing}' if doing else ''}{f': {detail}' if detail else ''}")


class OutOfMemoryError(RuntimeError):
    """Device memory did not suffice, not even with all cached memory given back."""


def size_text(nbytes: int) -> str:
    """A size in the unit people read: 20.00 MiB."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << shift:
            return f"{nbytes / (1 << shift):.2f} {unit}"
    return f"{nbytes} bytes"
