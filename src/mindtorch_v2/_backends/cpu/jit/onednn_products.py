"""Products of float32 matrices by oneDNN in OpenBLAS's place, where it is there.

It takes 5 to 30 % less time, and a ninth of it for a few rows times a transposed matrix, which OpenBLAS packs as if
there were many. Small products stay with OpenBLAS, which has kernels for them that pack nothing.
"""

import ctypes
import functools
import platform

from ...._core.threads import blas
from .. import onednn

__all__ = ["addresses", "ir"]

_FEW = 1 << 19  # multiplications

# cblas_sgemm of matrices whose rows come first. The thread multiplies alone: teams share a product out themselves.
_IR = """
declare i32 @mindtorch_onednn_sgemm(i8 signext, i8 signext, i64, i64, i64, float, ptr, i64, ptr, i64, float, ptr, i64)
declare i32 @mindtorch_onednn_threads()
declare void @mindtorch_onednn_set_threads(i32)
declare void @mindtorch_onednn_otherwise(i32, i32, i32, {int}, {int}, {int}, float, ptr, {int}, ptr, {int}, float, ptr,
                                         {int})

define void @sgemm(i32 %order, i32 %a_form, i32 %b_form, {int} %m, {int} %n, {int} %k, float %alpha, ptr %a, {int} %lda,
                   ptr %b, {int} %ldb, float %beta, ptr %c, {int} %ldc) {{
  %m_ = {widen} {int} %m to i64
  %n_ = {widen} {int} %n to i64
  %k_ = {widen} {int} %k to i64
  %lda_ = {widen} {int} %lda to i64
  %ldb_ = {widen} {int} %ldb to i64
  %ldc_ = {widen} {int} %ldc to i64
  %mn = mul i64 %m_, %n_
  %mnk = mul i64 %mn, %k_
  %few = icmp slt i64 %mnk, {few}
  br i1 %few, label %otherwise, label %many
many:
  %a_plain = icmp eq i32 %a_form, 111
  %b_plain = icmp eq i32 %b_form, 111
  %a_letter = select i1 %a_plain, i8 78, i8 84
  %b_letter = select i1 %b_plain, i8 78, i8 84
  %threads = call i32 @mindtorch_onednn_threads()
  call void @mindtorch_onednn_set_threads(i32 1)
  %status = call i32 @mindtorch_onednn_sgemm(i8 signext %a_letter, i8 signext %b_letter, i64 %m_, i64 %n_, i64 %k_,
                                             float %alpha, ptr %a, i64 %lda_, ptr %b, i64 %ldb_, float %beta, ptr %c,
                                             i64 %ldc_)
  call void @mindtorch_onednn_set_threads(i32 %threads)
  %done = icmp eq i32 %status, 0
  br i1 %done, label %end, label %otherwise
otherwise:
  call void @mindtorch_onednn_otherwise(i32 %order, i32 %a_form, i32 %b_form, {int} %m, {int} %n, {int} %k,
                                        float %alpha, ptr %a, {int} %lda, ptr %b, {int} %ldb, float %beta, ptr %c,
                                        {int} %ldc)
  br label %end
end:
  ret void
}}
"""


def ir() -> str:
    """The module: `sgemm` is for those who would call OpenBLAS."""
    found = blas()
    assert found is not None
    kinds = {"int": "i64", "widen": "bitcast"} if found.integers == 64 else {"int": "i32", "widen": "sext"}
    return _IR.format(**kinds, few=_FEW)


@functools.cache
def addresses() -> dict[str, int]:
    """What modules call, onednn_calls.py's too; nothing where oneDNN lacks, or machine code for this processor."""
    found, library = blas(), onednn.library() if platform.machine() in ("x86_64", "AMD64") else None
    if found is None or library is None or library.set_threads is None:
        return {}
    names = {"sgemm": "dnnl_sgemm", "threads": "omp_get_max_threads", "set_threads": "omp_set_num_threads",
             "place": "dnnl_memory_set_data_handle", "execute": "dnnl_primitive_execute"}  # fmt: skip
    made = {name: ctypes.cast(library.slow[there], ctypes.c_void_p).value or 0 for name, there in names.items()}
    return {f"mindtorch_onednn_{name}": at for name, at in (made | {"otherwise": found.addresses["sgemm"]}).items()}
