"""torch.backends.cpu"""


def get_cpu_capability() -> str:
    """The widest vector instructions that NumPy's loops use on this machine."""
    import numpy as np

    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])  # type: ignore[call-overload,index]
    if any(name.startswith(("AVX512", "X86_V4")) for name in found):
        return "AVX512"
    return "AVX2" if any(name in ("AVX2", "X86_V3") for name in found) else "DEFAULT"
