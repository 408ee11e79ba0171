"""How CUDA C calls the element types."""

import numpy as np

# Half types are their bits, computed with in float.
C_TYPES = {"bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int",
           "int64": "long long", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
           "float16": "half_t", "bfloat16": "bfloat_t", "float32": "float", "float64": "double"}


def c_type(kind: np.dtype) -> str:
    return C_TYPES[kind.name]
