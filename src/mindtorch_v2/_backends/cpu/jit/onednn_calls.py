"""Primitives of oneDNN run by compiled code: one call that tells where arrays lie, and computes."""

from .calls import Code
from .machine import sources

__all__ = ["EXECUTE"]

_IR = """
declare i32 @mindtorch_onednn_place(ptr, ptr)
declare i32 @mindtorch_onednn_execute(ptr, ptr, i32, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromLongLong(i64)

define ptr @entry(ptr %self, ptr %args, i64 %count) {
begin:
  %first = load ptr, ptr %args
  %first.data = getelementptr i8, ptr %first, i64 16
  %words = load ptr, ptr %first.data
  br label %next
next:
  %i = phi i64 [ 1, %begin ], [ %after, %next ]
  %array.at = getelementptr ptr, ptr %args, i64 %i
  %array = load ptr, ptr %array.at
  %array.data = getelementptr i8, ptr %array, i64 16
  %data = load ptr, ptr %array.data
  %position = add i64 %i, 3
  %memory.at = getelementptr ptr, ptr %words, i64 %position
  %memory = load ptr, ptr %memory.at
  %placed = call i32 @mindtorch_onednn_place(ptr %memory, ptr %data)
  %after = add i64 %i, 1
  %more = icmp slt i64 %after, %count
  br i1 %more, label %next, label %run
run:
  %primitive = load ptr, ptr %words
  %stream.at = getelementptr ptr, ptr %words, i64 1
  %stream = load ptr, ptr %stream.at
  %number.at = getelementptr i64, ptr %words, i64 2
  %number = load i64, ptr %number.at
  %short = trunc i64 %number to i32
  %arguments.at = getelementptr ptr, ptr %words, i64 3
  %arguments = load ptr, ptr %arguments.at
  %thread = call ptr @PyEval_SaveThread()
  %status = call i32 @mindtorch_onednn_execute(ptr %primitive, ptr %stream, i32 %short, ptr %arguments)
  call void @PyEval_RestoreThread(ptr %thread)
  %wide = sext i32 %status to i64
  %made = call ptr @PyLong_FromLongLong(i64 %wide)
  ret ptr %made
}
"""


def _known_as() -> str | None:
    made_by = sources()
    return made_by and f"onednn calls {made_by}"


# `call(words, *arrays)`, once it is there, gives oneDNN's status. The words are the addresses of primitive and stream,
# how many arguments there are and where, and those of the memory objects that the arrays are put into, in their order.
EXECUTE = Code(lambda: _IR, _known_as)
