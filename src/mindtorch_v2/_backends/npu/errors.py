"""What the NPU backend raises."""

from ..._core.device_objects import OutOfMemoryError, size_text
from .facts import MEANINGS

__all__ = ["NpuError", "OutOfMemoryError", "size_text"]


class NpuError(RuntimeError):
    """A call into CANN that failed: `call` is the function, `code` what it returned, `detail` CANN's own words."""

    def __init__(self, call: str, code: int, detail: str = "", doing: str = "") -> None:
        self.call, self.code, self.detail = call, code, detail
        meaning = MEANINGS.get(code)
        text = f"{call} failed with code {code}{f' ({meaning})' if meaning else ''}"
        super().__init__(f"{text}{f' in {doing}' if doing else ''}{f': {detail}' if detail else ''}")
