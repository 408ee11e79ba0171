"""Where the library runs: on processors of 64 bits that store the lowest byte first. Importing this checks it."""

import sys


def check(byteorder: str = sys.byteorder, largest: int = sys.maxsize) -> None:
    """ImportError on machines whose numbers lie in memory in another way than files and kernels have them."""
    if byteorder != "little":
        raise ImportError("mindtorch_v2 needs a little-endian processor: files and kernels have numbers in that order")
    if largest < 2**63 - 1:
        raise ImportError(f"mindtorch_v2 needs Python for 64 bits, and this one is for {largest.bit_length() + 1}: "
                          "tensors count their elements in 64 bits")


check()
