"""Compiled functions that make the ndarray of a view: by a geometry that a plan knows, or by a basic index.

    show(geometry, array)  the view that `packed` wrote down, of an array of the layout that it was found out for
    part(array, index)     `array[index]` and how many bytes after the array it begins

Both give None for what they leave to NumPy: other classes of arrays, indices of other kinds, views without elements.
What they make keeps the array that owns the memory, and is writeable if the array is.
"""

import struct

import numpy as np

from ...._core.native import forever
from .lookups import Functions

__all__ = ["functions", "packed"]

_MOST = 64  # dimensions of an ndarray

# An ndarray has its memory at byte 16, the number of its dimensions at 24, sizes at 32, strides at 40, its type at 56
# and its flags at 64 (0x400: writeable); entries 94 and 282 of NumPy's table are PyArray_NewFromDescr and
# PyArray_SetBaseObject, which takes over a reference to the base, and finds the array behind it that owns the memory.
_IR = f"""
@PyArray_API = external constant [400 x ptr]
@PyArray_Type = external global i8
@PyLong_Type = external global i8
@PyTuple_Type = external global i8
@PySlice_Type = external global i8
@_Py_NoneStruct = external global i8
@_Py_EllipsisObject = external global i8
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyTuple_New(i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)

define internal i1 @is_array(ptr %value) {{
  %type_place = getelementptr i8, ptr %value, i64 8
  %type = load ptr, ptr %type_place
  %is_array = icmp eq ptr %type, @PyArray_Type
  ret i1 %is_array
}}

define internal ptr @nothing() {{
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}}

define internal ptr @shown(ptr %array, ptr %kind, i32 %rank, ptr %sizes, ptr %steps, i64 %offset) {{
  %memory_place = getelementptr i8, ptr %array, i64 16
  %memory = load ptr, ptr %memory_place
  %begin = getelementptr i8, ptr %memory, i64 %offset
  %flags_place = getelementptr i8, ptr %array, i64 64
  %flags = load i32, ptr %flags_place
  %writeable = and i32 %flags, 1024
  %new = load ptr, ptr getelementptr ([400 x ptr], ptr @PyArray_API, i64 0, i64 94)
  %set_base = load ptr, ptr getelementptr ([400 x ptr], ptr @PyArray_API, i64 0, i64 282)
  call void @Py_IncRef(ptr %kind)
  %made = call ptr %new(ptr @PyArray_Type, ptr %kind, i32 %rank, ptr %sizes, ptr %steps, ptr %begin, i32 %writeable,
                        ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %end, label %keep
keep:
  call void @Py_IncRef(ptr %array)
  %kept = call i32 %set_base(ptr %made, ptr %array)
  %held = icmp eq i32 %kept, 0
  br i1 %held, label %end, label %drop
drop:
  call void @Py_DecRef(ptr %made)
  ret ptr null
end:
  ret ptr %made
}}

; The geometry is bytes, whose content begins at byte 32: rank, offset, type or 0 for the array's own, sizes, strides.
define ptr @show(ptr %none, ptr %args, i64 %count) {{
  %geometry = load ptr, ptr %args
  %array_place = getelementptr ptr, ptr %args, i64 1
  %array = load ptr, ptr %array_place
  %is_array = call i1 @is_array(ptr %array)
  br i1 %is_array, label %known, label %strange
strange:
  %nothing = call ptr @nothing()
  ret ptr %nothing
known:
  %rank_place = getelementptr i8, ptr %geometry, i64 32
  %rank = load i64, ptr %rank_place
  %offset_place = getelementptr i8, ptr %geometry, i64 40
  %offset = load i64, ptr %offset_place
  %kind_place = getelementptr i8, ptr %geometry, i64 48
  %given = load ptr, ptr %kind_place
  %sizes = getelementptr i8, ptr %geometry, i64 56
  %steps = getelementptr i64, ptr %sizes, i64 %rank
  %own_place = getelementptr i8, ptr %array, i64 56
  %own = load ptr, ptr %own_place
  %same = icmp eq ptr %given, null
  %kind = select i1 %same, ptr %own, ptr %given
  %rank_short = trunc i64 %rank to i32
  %made = call ptr @shown(ptr %array, ptr %kind, i32 %rank_short, ptr %sizes, ptr %steps, i64 %offset)
  ret ptr %made
}}

; What an integer of an index is: false if it is none, or none of 32 bits. `otherwise` stands for None.
define internal i1 @number(ptr %value, ptr %to, i64 %otherwise) {{
  %overflow = alloca i32
  %is_none = icmp eq ptr %value, @_Py_NoneStruct
  br i1 %is_none, label %absent, label %look
absent:
  store i64 %otherwise, ptr %to
  ret i1 true
look:
  %type_place = getelementptr i8, ptr %value, i64 8
  %type = load ptr, ptr %type_place
  %is_int = icmp eq ptr %type, @PyLong_Type
  br i1 %is_int, label %read, label %no
no:
  ret i1 false
read:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %value, ptr %overflow)
  %beyond = load i32, ptr %overflow
  %fits = icmp eq i32 %beyond, 0
  %short = trunc i64 %number to i32
  %back = sext i32 %short to i64
  %small = icmp eq i64 %back, %number
  %good = and i1 %fits, %small
  store i64 %number, ptr %to
  ret i1 %good
}}

; Where a bound of a slice lies in a dimension of this size.
define internal i64 @clamped(i64 %bound, i64 %size) {{
  %negative = icmp slt i64 %bound, 0
  %from_end = add i64 %bound, %size
  %counted = select i1 %negative, i64 %from_end, i64 %bound
  %before = icmp slt i64 %counted, 0
  %raised = select i1 %before, i64 0, i64 %counted
  %after = icmp sgt i64 %raised, %size
  %made = select i1 %after, i64 %size, i64 %raised
  ret i64 %made
}}

define ptr @part(ptr %none, ptr %args, i64 %count) {{
entry:
  %made_sizes = alloca [{_MOST} x i64]
  %made_steps = alloca [{_MOST} x i64]
  %start = alloca i64
  %stop = alloca i64
  %step = alloca i64
  %array = load ptr, ptr %args
  %index_place = getelementptr ptr, ptr %args, i64 1
  %index = load ptr, ptr %index_place
  %is_array = call i1 @is_array(ptr %array)
  br i1 %is_array, label %read, label %leave
leave:
  %nothing = call ptr @nothing()
  ret ptr %nothing
read:
  %rank_place = getelementptr i8, ptr %array, i64 24
  %rank_short = load i32, ptr %rank_place
  %rank = zext i32 %rank_short to i64
  %sizes_place = getelementptr i8, ptr %array, i64 32
  %sizes = load ptr, ptr %sizes_place
  %steps_place = getelementptr i8, ptr %array, i64 40
  %steps = load ptr, ptr %steps_place
  %kind_place = getelementptr i8, ptr %array, i64 56
  %kind = load ptr, ptr %kind_place
  %index_type_place = getelementptr i8, ptr %index, i64 8
  %index_type = load ptr, ptr %index_type_place
  %is_tuple = icmp eq ptr %index_type, @PyTuple_Type
  %length_place = getelementptr i8, ptr %index, i64 16
  br i1 %is_tuple, label %several, label %counting
several:
  %length = load i64, ptr %length_place
  br label %counting

; How many dimensions the index names: what an ellipsis stands for is all the others.
counting:
  %parts = phi i64 [1, %read], [%length, %several]
  %items_in_tuple = getelementptr i8, ptr %index, i64 24
  %items = select i1 %is_tuple, ptr %items_in_tuple, ptr %index_place
  br label %tally
tally:
  %t = phi i64 [0, %counting], [%t_next, %tallied]
  %named = phi i64 [0, %counting], [%named_next, %tallied]
  %dots = phi i64 [0, %counting], [%dots_next, %tallied]
  %more_to_tally = icmp ult i64 %t, %parts
  br i1 %more_to_tally, label %look, label %counted
look:
  %seen_place = getelementptr ptr, ptr %items, i64 %t
  %seen = load ptr, ptr %seen_place
  %seen_type_place = getelementptr i8, ptr %seen, i64 8
  %seen_type = load ptr, ptr %seen_type_place
  %is_int = icmp eq ptr %seen_type, @PyLong_Type
  %is_slice = icmp eq ptr %seen_type, @PySlice_Type
  %names_one = or i1 %is_int, %is_slice
  %is_dots = icmp eq ptr %seen, @_Py_EllipsisObject
  %is_none = icmp eq ptr %seen, @_Py_NoneStruct
  %is_free = or i1 %is_dots, %is_none
  %is_basic = or i1 %names_one, %is_free
  br i1 %is_basic, label %tallied, label %leave
tallied:
  %one_named = zext i1 %names_one to i64
  %named_next = add i64 %named, %one_named
  %one_dots = zext i1 %is_dots to i64
  %dots_next = add i64 %dots, %one_dots
  %t_next = add i64 %t, 1
  br label %tally
counted:
  %too_many = icmp ugt i64 %named, %rank
  %ambiguous = icmp ugt i64 %dots, 1
  %unfit = or i1 %too_many, %ambiguous
  %unnamed = sub i64 %rank, %named
  br i1 %unfit, label %leave, label %part

; Each part of the index: `d` counts dimensions of the array, `m` those of the view.
part:
  %p = phi i64 [0, %counted], [%p_next, %done]
  %d = phi i64 [0, %counted], [%d_next, %done]
  %m = phi i64 [0, %counted], [%m_next, %done]
  %offset = phi i64 [0, %counted], [%offset_next, %done]
  %over = icmp eq i64 %p, %parts
  br i1 %over, label %rest, label %there
there:
  %full = icmp uge i64 %m, {_MOST}
  br i1 %full, label %leave, label %which
which:
  %item_place = getelementptr ptr, ptr %items, i64 %p
  %item = load ptr, ptr %item_place
  %item_type_place = getelementptr i8, ptr %item, i64 8
  %item_type = load ptr, ptr %item_type_place
  %size_place = getelementptr i64, ptr %sizes, i64 %d
  %stride_place = getelementptr i64, ptr %steps, i64 %d
  %to_size = getelementptr i64, ptr %made_sizes, i64 %m
  %to_step = getelementptr i64, ptr %made_steps, i64 %m
  %item_is_int = icmp eq ptr %item_type, @PyLong_Type
  br i1 %item_is_int, label %int, label %which_slice
which_slice:
  %item_is_slice = icmp eq ptr %item_type, @PySlice_Type
  br i1 %item_is_slice, label %slice, label %which_free
which_free:
  %item_is_none = icmp eq ptr %item, @_Py_NoneStruct
  br i1 %item_is_none, label %none_here, label %dots_here

int:
  %int_known = call i1 @number(ptr %item, ptr %start, i64 0)
  br i1 %int_known, label %int_read, label %leave
int_read:
  %number = load i64, ptr %start
  %int_size = load i64, ptr %size_place
  %int_stride = load i64, ptr %stride_place
  %int_negative = icmp slt i64 %number, 0
  %from_end = add i64 %number, %int_size
  %place = select i1 %int_negative, i64 %from_end, i64 %number
  %inside = icmp ult i64 %place, %int_size
  %int_offset = mul i64 %place, %int_stride
  br i1 %inside, label %done_int, label %leave
done_int:
  br label %done

slice:
  %start_place = getelementptr i8, ptr %item, i64 16
  %start_object = load ptr, ptr %start_place
  %stop_place = getelementptr i8, ptr %item, i64 24
  %stop_object = load ptr, ptr %stop_place
  %step_place = getelementptr i8, ptr %item, i64 32
  %step_object = load ptr, ptr %step_place
  %slice_size = load i64, ptr %size_place
  %slice_stride = load i64, ptr %stride_place
  %start_known = call i1 @number(ptr %start_object, ptr %start, i64 0)
  %stop_known = call i1 @number(ptr %stop_object, ptr %stop, i64 %slice_size)
  %step_known = call i1 @number(ptr %step_object, ptr %step, i64 1)
  %bounds_known = and i1 %start_known, %stop_known
  %slice_known = and i1 %bounds_known, %step_known
  br i1 %slice_known, label %slice_read, label %leave
slice_read:
  %start_given = load i64, ptr %start
  %stop_given = load i64, ptr %stop
  %by = load i64, ptr %step
  %forward = icmp sgt i64 %by, 0
  br i1 %forward, label %slice_forward, label %leave
slice_forward:
  %first = call i64 @clamped(i64 %start_given, i64 %slice_size)
  %last = call i64 @clamped(i64 %stop_given, i64 %slice_size)
  %some = icmp slt i64 %first, %last
  br i1 %some, label %slice_some, label %leave
slice_some:
  %span = sub i64 %last, %first
  %span_before = sub i64 %span, 1
  %turns = udiv i64 %span_before, %by
  %taken = add i64 %turns, 1
  %stretched = mul i64 %slice_stride, %by
  %slice_offset = mul i64 %first, %slice_stride
  store i64 %taken, ptr %to_size
  store i64 %stretched, ptr %to_step
  br label %done

; A new dimension steps over the next one, as PyTorch's do; at the end it steps by an element.
none_here:
  %at_end = icmp eq i64 %d, %rank
  br i1 %at_end, label %none_last, label %none_before
none_last:
  %itemsize_place = getelementptr i8, ptr %kind, i64 40
  %itemsize = load i64, ptr %itemsize_place
  br label %none_done
none_before:
  %next_size = load i64, ptr %size_place
  %next_stride = load i64, ptr %stride_place
  %whole = mul i64 %next_size, %next_stride
  br label %none_done
none_done:
  %new_stride = phi i64 [%itemsize, %none_last], [%whole, %none_before]
  store i64 1, ptr %to_size
  store i64 %new_stride, ptr %to_step
  br label %done

dots_here:
  %dots_end = add i64 %d, %unnamed
  %dots_m = add i64 %m, %unnamed
  %dots_fit = icmp ule i64 %dots_m, {_MOST}
  br i1 %dots_fit, label %dots_copy, label %leave
dots_copy:
  %dots_copied = call i1 @copied(ptr %sizes, ptr %steps, i64 %d, i64 %unnamed, ptr %to_size, ptr %to_step)
  br i1 %dots_copied, label %done_dots, label %leave
done_dots:
  br label %done

done:
  %moved = phi i64 [1, %done_int], [1, %slice_some], [0, %none_done], [%unnamed, %done_dots]
  %added = phi i64 [0, %done_int], [1, %slice_some], [1, %none_done], [%unnamed, %done_dots]
  %further = phi i64 [%int_offset, %done_int], [%slice_offset, %slice_some], [0, %none_done], [0, %done_dots]
  %p_next = add i64 %p, 1
  %d_next = add i64 %d, %moved
  %m_next = add i64 %m, %added
  %offset_next = add i64 %offset, %further
  br label %part

rest:
  %left = sub i64 %rank, %d
  %made_rank = add i64 %m, %left
  %rest_fits = icmp ule i64 %made_rank, {_MOST}
  br i1 %rest_fits, label %rest_copy, label %leave
rest_copy:
  %rest_size = getelementptr i64, ptr %made_sizes, i64 %m
  %rest_step = getelementptr i64, ptr %made_steps, i64 %m
  %rest_copied = call i1 @copied(ptr %sizes, ptr %steps, i64 %d, i64 %left, ptr %rest_size, ptr %rest_step)
  br i1 %rest_copied, label %make, label %leave
make:
  %made_rank_short = trunc i64 %made_rank to i32
  %made = call ptr @shown(ptr %array, ptr %kind, i32 %made_rank_short, ptr %made_sizes, ptr %made_steps, i64 %offset)
  %no_view = icmp eq ptr %made, null
  br i1 %no_view, label %failed, label %pair
failed:
  ret ptr null
pair:
  %distance = call ptr @PyLong_FromLongLong(i64 %offset)
  %no_number = icmp eq ptr %distance, null
  br i1 %no_number, label %drop_view, label %bind
bind:
  %both = call ptr @PyTuple_New(i64 2)
  %no_tuple = icmp eq ptr %both, null
  br i1 %no_tuple, label %drop_both, label %fill
drop_both:
  call void @Py_DecRef(ptr %distance)
  br label %drop_view
drop_view:
  call void @Py_DecRef(ptr %made)
  ret ptr null
fill:
  %first_place = getelementptr i8, ptr %both, i64 24
  store ptr %made, ptr %first_place
  %second_place = getelementptr i8, ptr %both, i64 32
  store ptr %distance, ptr %second_place
  ret ptr %both
}}

; Takes dimensions over as they are; false if one of them has no elements.
define internal i1 @copied(ptr %sizes, ptr %steps, i64 %from, i64 %count, ptr %to_sizes, ptr %to_steps) {{
entry:
  br label %next
next:
  %i = phi i64 [0, %entry], [%i_next, %one]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %all
all:
  ret i1 true
look:
  %at = add i64 %from, %i
  %size_from = getelementptr i64, ptr %sizes, i64 %at
  %size = load i64, ptr %size_from
  %empty = icmp eq i64 %size, 0
  br i1 %empty, label %none, label %one
none:
  ret i1 false
one:
  %step_from = getelementptr i64, ptr %steps, i64 %at
  %step = load i64, ptr %step_from
  %size_to = getelementptr i64, ptr %to_sizes, i64 %i
  store i64 %size, ptr %size_to
  %step_to = getelementptr i64, ptr %to_steps, i64 %i
  store i64 %step, ptr %step_to
  %i_next = add i64 %i, 1
  br label %next, !llvm.loop !0
}}

!0 = distinct !{{!0, !1}}
!1 = !{{!"llvm.loop.vectorize.enable", i1 false}}
"""

functions = Functions(_IR, ("show", "part"))
_named: dict[int, np.dtype] = {}  # types that geometries name, which have to stay


def packed(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, kind: np.dtype | None) -> bytes:
    """A geometry for `show`, in bytes; `kind` is the type if that is not the array's own."""
    if kind is not None and id(kind) not in _named:
        _named[id(kind)] = forever(kind)
    numbers = (len(shape), offset, 0 if kind is None else id(kind), *shape, *strides)
    return struct.pack(f"{len(numbers)}q", *numbers)
