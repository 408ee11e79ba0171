"""Short names of types, which logs of operators print."""

from .._core.dtype import ALL

dtype_abbrs = {dtype: dtype.abbr for dtype in ALL}
