"""Looking plans up (_ops/_declare/plans.py) without making Python objects of shapes and strides.

What a call depends on is written down as numbers: of a tensor the type, sizes and strides of its array, of any other
argument its value. These numbers are a key as bytes, and a dict of such keys is asked for them where they lie, on the
stack. A call with an argument whose value is not told by a few numbers (a generator, an array that is none of NumPy's)
has no key.

Keys bring their own hash, which takes less time than Python's: bytes of these functions are for dicts of their own.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from ...._dispatch.keys import CPU_MASK, DUAL_MASK, REQUIRES_GRAD, VIEW_MASK
from . import machine

__all__ = ["finder", "key_of", "when_loaded"]

_WORDS = 252  # of a key; longer ones are none
_UNFIT, _WAKING = ~(CPU_MASK | VIEW_MASK), REQUIRES_GRAD | DUAL_MASK
_FUNCTIONS = ("find", "find_unless_recorded", "key")

# `noted` writes an argument down behind `at`, and gives where the next one goes: null if it cannot be. The first word
# of each says what it is, and how long. A tensor that autograd, or a mark, wants to see is refused if `seen` is set.
_IR = f"""
@PyArray_Type = external global i8
@PyLong_Type = external global i8
@PyBool_Type = external global i8
@PyFloat_Type = external global i8
@PyComplex_Type = external global i8
@PyTuple_Type = external global i8
@PyList_Type = external global i8
@PyUnicode_Type = external global i8
@PyBytes_Type = external global i8
@_Py_NoneStruct = external global i8
@mindtorch_object_Tensor = external global i8
@mindtorch_object_device = external global i8
@mindtorch_object_dtype = external global i8
@mindtorch_object_layout = external global i8
@mindtorch_object_memory_format = external global i8
@mindtorch_object__array = external global i8
@mindtorch_object__base = external global i8
@mindtorch_object__keys = external global i8
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyUnicode_AsUTF8AndSize(ptr, ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @memcpy(ptr, ptr, i64)

define internal i64 @keys_of(ptr %tensor) {{
  %overflow = alloca i32
  %given = call ptr @PyObject_GetAttr(ptr %tensor, ptr @mindtorch_object__keys)
  %none = icmp eq ptr %given, null
  br i1 %none, label %failed, label %found
failed:
  call void @PyErr_Clear()
  ret i64 -1
found:
  %keys = call i64 @PyLong_AsLongLongAndOverflow(ptr %given, ptr %overflow)
  call void @Py_DecRef(ptr %given)
  ret i64 %keys
}}

define internal i1 @is_plain(ptr %tensor) {{
  %keys = call i64 @keys_of(ptr %tensor)
  %unfit = and i64 %keys, {_UNFIT}
  %fits = icmp eq i64 %unfit, 0
  br i1 %fits, label %fitting, label %no
no:
  ret i1 false
fitting:
  %shown = and i64 %keys, {VIEW_MASK}
  %own = icmp eq i64 %shown, 0
  br i1 %own, label %yes, label %view
yes:
  ret i1 true
view:
  %base = call ptr @PyObject_GetAttr(ptr %tensor, ptr @mindtorch_object__base)
  %gone = icmp eq ptr %base, null
  br i1 %gone, label %failed, label %based
failed:
  call void @PyErr_Clear()
  ret i1 false
based:
  %base_keys = call i64 @keys_of(ptr %base)
  call void @Py_DecRef(ptr %base)
  %woken = and i64 %base_keys, {_WAKING}
  %asleep = icmp eq i64 %woken, 0
  ret i1 %asleep
}}

define internal ptr @noted(ptr %value, ptr %at, ptr %end, i1 %seen) {{
entry:
  %overflow = alloca i32
  %length = alloca i64
  %next = getelementptr i64, ptr %at, i64 1
  %after = getelementptr i64, ptr %at, i64 2
  %full = icmp ugt ptr %after, %end
  br i1 %full, label %unknown, label %look
look:
  %type_place = getelementptr i8, ptr %value, i64 8
  %type = load ptr, ptr %type_place
  %is_tensor = icmp eq ptr %type, @mindtorch_object_Tensor
  br i1 %is_tensor, label %tensor, label %look_int
look_int:
  %is_int = icmp eq ptr %type, @PyLong_Type
  br i1 %is_int, label %int, label %look_single
look_single:
  %is_none = icmp eq ptr %value, @_Py_NoneStruct
  %is_bool = icmp eq ptr %type, @PyBool_Type
  %is_device = icmp eq ptr %type, @mindtorch_object_device
  %is_dtype = icmp eq ptr %type, @mindtorch_object_dtype
  %is_layout = icmp eq ptr %type, @mindtorch_object_layout
  %is_format = icmp eq ptr %type, @mindtorch_object_memory_format
  %single_1 = or i1 %is_none, %is_bool
  %single_2 = or i1 %is_dtype, %is_layout
  %single_3 = or i1 %is_format, %is_device
  %single_4 = or i1 %single_1, %single_2
  %is_single = or i1 %single_3, %single_4
  br i1 %is_single, label %single, label %look_tuple
look_tuple:
  %is_tuple = icmp eq ptr %type, @PyTuple_Type
  %is_list = icmp eq ptr %type, @PyList_Type
  %is_sequence = or i1 %is_tuple, %is_list
  br i1 %is_sequence, label %sequence, label %look_float
look_float:
  %is_float = icmp eq ptr %type, @PyFloat_Type
  br i1 %is_float, label %float, label %look_text
look_text:
  %is_text = icmp eq ptr %type, @PyUnicode_Type
  br i1 %is_text, label %text, label %look_complex
look_complex:
  %is_complex = icmp eq ptr %type, @PyComplex_Type
  br i1 %is_complex, label %complex, label %look_class
look_class:
  %related = call i32 @PyType_IsSubtype(ptr %type, ptr @mindtorch_object_Tensor)
  %is_related = icmp ne i32 %related, 0
  br i1 %is_related, label %tensor, label %unknown

unknown:
  ret ptr null

single:
  store i64 1, ptr %at
  store ptr %value, ptr %next
  ret ptr %after

int:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %value, ptr %overflow)
  %beyond = load i32, ptr %overflow
  %fits = icmp eq i32 %beyond, 0
  store i64 2, ptr %at
  store i64 %number, ptr %next
  br i1 %fits, label %done, label %unknown
done:
  ret ptr %after

float:
  %float_place = getelementptr i8, ptr %value, i64 16
  %float_bits = load i64, ptr %float_place
  store i64 3, ptr %at
  store i64 %float_bits, ptr %next
  ret ptr %after

complex:
  %third = getelementptr i64, ptr %at, i64 3
  %long = icmp ugt ptr %third, %end
  br i1 %long, label %unknown, label %complex_fits
complex_fits:
  %real_place = getelementptr i8, ptr %value, i64 16
  %imaginary_place = getelementptr i8, ptr %value, i64 24
  %real_bits = load i64, ptr %real_place
  %imaginary_bits = load i64, ptr %imaginary_place
  store i64 4, ptr %at
  store i64 %real_bits, ptr %next
  store i64 %imaginary_bits, ptr %after
  ret ptr %third

text:
  %bytes = call ptr @PyUnicode_AsUTF8AndSize(ptr %value, ptr %length)
  %odd = icmp eq ptr %bytes, null
  br i1 %odd, label %failed, label %text_known
failed:
  call void @PyErr_Clear()
  ret ptr null
text_known:
  %size = load i64, ptr %length
  %size_up = add i64 %size, 7
  %size_words = lshr i64 %size_up, 3
  %text_end = getelementptr i64, ptr %next, i64 %size_words
  %text_long = icmp ugt ptr %text_end, %end
  br i1 %text_long, label %unknown, label %text_fits
text_fits:
  %text_last = getelementptr i64, ptr %text_end, i64 -1
  store i64 0, ptr %text_last
  %size_high = shl i64 %size, 4
  %size_tag = or i64 %size_high, 5
  store i64 %size_tag, ptr %at
  call ptr @memcpy(ptr %next, ptr %bytes, i64 %size)
  ret ptr %text_end

sequence:
  %count_place = getelementptr i8, ptr %value, i64 16
  %count = load i64, ptr %count_place
  %count_high = shl i64 %count, 4
  %count_tag = or i64 %count_high, 6
  store i64 %count_tag, ptr %at
  %items_place = getelementptr i8, ptr %value, i64 24
  %list_items = load ptr, ptr %items_place
  %items = select i1 %is_list, ptr %list_items, ptr %items_place
  br label %item
item:
  %i = phi i64 [0, %sequence], [%i_next, %item_noted]
  %item_at = phi ptr [%next, %sequence], [%item_end, %item_noted]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %item_there, label %items_done
items_done:
  ret ptr %item_at
item_there:
  %item_place = getelementptr ptr, ptr %items, i64 %i
  %one = load ptr, ptr %item_place
  %item_end = call ptr @noted(ptr %one, ptr %item_at, ptr %end, i1 %seen)
  %item_unknown = icmp eq ptr %item_end, null
  br i1 %item_unknown, label %unknown, label %item_noted
item_noted:
  %i_next = add i64 %i, 1
  br label %item

tensor:
  br i1 %seen, label %ask, label %array
ask:
  %plain = call i1 @is_plain(ptr %value)
  br i1 %plain, label %array, label %unknown
array:
  %held = call ptr @PyObject_GetAttr(ptr %value, ptr @mindtorch_object__array)
  %bare = icmp eq ptr %held, null
  br i1 %bare, label %failed, label %array_there
array_there:
  %held_type_place = getelementptr i8, ptr %held, i64 8
  %held_type = load ptr, ptr %held_type_place
  %is_array = icmp eq ptr %held_type, @PyArray_Type
  br i1 %is_array, label %layout, label %strange
strange:
  call void @Py_DecRef(ptr %held)
  ret ptr null
layout:
  %rank_place = getelementptr i8, ptr %held, i64 24
  %rank_short = load i32, ptr %rank_place
  %rank = zext i32 %rank_short to i64
  %sizes_place = getelementptr i8, ptr %held, i64 32
  %sizes = load ptr, ptr %sizes_place
  %steps_place = getelementptr i8, ptr %held, i64 40
  %steps = load ptr, ptr %steps_place
  %kind_place = getelementptr i8, ptr %held, i64 56
  %kind_object = load ptr, ptr %kind_place
  %kind_fields = getelementptr i8, ptr %kind_object, i64 24
  %kind = load i64, ptr %kind_fields
  %steps_at = getelementptr i64, ptr %after, i64 %rank
  %array_end = getelementptr i64, ptr %steps_at, i64 %rank
  %large = icmp ugt ptr %array_end, %end
  br i1 %large, label %strange, label %array_fits
array_fits:
  %rank_high = shl i64 %rank, 4
  %rank_tag = or i64 %rank_high, 7
  store i64 %rank_tag, ptr %at
  store i64 %kind, ptr %next
  br label %axis
axis:
  %d = phi i64 [0, %array_fits], [%d_next, %axis_there]
  %deeper = icmp ult i64 %d, %rank
  br i1 %deeper, label %axis_there, label %array_done
axis_there:
  %size_from = getelementptr i64, ptr %sizes, i64 %d
  %size_value = load i64, ptr %size_from
  %size_to = getelementptr i64, ptr %after, i64 %d
  store i64 %size_value, ptr %size_to
  %step_from = getelementptr i64, ptr %steps, i64 %d
  %step_value = load i64, ptr %step_from
  %step_to = getelementptr i64, ptr %steps_at, i64 %d
  store i64 %step_value, ptr %step_to
  %d_next = add i64 %d, 1
  br label %axis, !llvm.loop !0
array_done:
  call void @Py_DecRef(ptr %held)
  ret ptr %array_end
}}

; Makes `key`, which has room, the bytes object of what a call depends on; false if it has no key.
define internal i1 @written(ptr %key, ptr %args, i64 %count, i1 %seen) {{
entry:
  %begin = getelementptr i64, ptr %key, i64 4
  %end = getelementptr i64, ptr %begin, i64 {_WORDS}
  br label %next
next:
  %i = phi i64 [0, %entry], [%i_next, %known]
  %at = phi ptr [%begin, %entry], [%noted, %known]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %argument, label %all
argument:
  %place = getelementptr ptr, ptr %args, i64 %i
  %value = load ptr, ptr %place
  %noted = call ptr @noted(ptr %value, ptr %at, ptr %end, i1 %seen)
  %unknown = icmp eq ptr %noted, null
  br i1 %unknown, label %failed, label %known
failed:
  ret i1 false
known:
  %i_next = add i64 %i, 1
  br label %next
all:
  %first = ptrtoint ptr %begin to i64
  %last = ptrtoint ptr %at to i64
  %size = sub i64 %last, %first
  br label %mix
mix:
  %word_at = phi ptr [%begin, %all], [%word_next, %mixing]
  %hash = phi i64 [%size, %all], [%mixed, %mixing]
  %over = icmp eq ptr %word_at, %at
  br i1 %over, label %finish, label %mixing
mixing:
  %word = load i64, ptr %word_at
  %joined = xor i64 %hash, %word
  %spread = mul i64 %joined, -7046029254386353131
  %folded = lshr i64 %spread, 29
  %mixed = xor i64 %spread, %folded
  %word_next = getelementptr i64, ptr %word_at, i64 1
  br label %mix
finish:
  %positive = lshr i64 %hash, 1
  store i64 1, ptr %key
  %type_place = getelementptr i64, ptr %key, i64 1
  store ptr @PyBytes_Type, ptr %type_place
  %size_place = getelementptr i64, ptr %key, i64 2
  store i64 %size, ptr %size_place
  %hash_place = getelementptr i64, ptr %key, i64 3
  store i64 %positive, ptr %hash_place
  ret i1 true
}}

define internal ptr @found(ptr %plans, ptr %args, i64 %count, i1 %seen) {{
  %key = alloca [{_WORDS + 4} x i64]
  %told = call i1 @written(ptr %key, ptr %args, i64 %count, i1 %seen)
  br i1 %told, label %ask, label %none
ask:
  %plan = call ptr @PyDict_GetItemWithError(ptr %plans, ptr %key)
  %missing = icmp eq ptr %plan, null
  br i1 %missing, label %none, label %there
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
there:
  call void @Py_IncRef(ptr %plan)
  ret ptr %plan
}}

define ptr @find(ptr %plans, ptr %args, i64 %count) {{
  %plan = call ptr @found(ptr %plans, ptr %args, i64 %count, i1 false)
  ret ptr %plan
}}

define ptr @find_unless_recorded(ptr %plans, ptr %args, i64 %count) {{
  %plan = call ptr @found(ptr %plans, ptr %args, i64 %count, i1 true)
  ret ptr %plan
}}

define ptr @key(ptr %none, ptr %args, i64 %count) {{
  %key = alloca [{_WORDS + 4} x i64]
  %told = call i1 @written(ptr %key, ptr %args, i64 %count, i1 false)
  br i1 %told, label %make, label %unknown
unknown:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
make:
  %begin = getelementptr i64, ptr %key, i64 4
  %size_place = getelementptr i64, ptr %key, i64 2
  %size = load i64, ptr %size_place
  %made = call ptr @PyBytes_FromStringAndSize(ptr %begin, i64 %size)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %end, label %name
name:
  %hash_from = getelementptr i64, ptr %key, i64 3
  %hash = load i64, ptr %hash_from
  %hash_to = getelementptr i64, ptr %made, i64 3
  store i64 %hash, ptr %hash_to
  br label %end
end:
  ret ptr %made
}}

!0 = distinct !{{!0, !1}}
!1 = !{{!"llvm.loop.vectorize.enable", i1 false}}
"""


class Functions:
    """Compiled functions that are loaded when somebody wants them."""

    def __init__(self, ir: str, names: Sequence[str]) -> None:
        self._ir, self._names = ir, names
        self._addresses: dict[str, int] = {}
        self._waiting: list[Callable[[], None]] = []  # called once the functions are there
        self._made: dict[str, Callable[..., Any]] = {}

    def when_loaded(self, use: Callable[[], None]) -> None:
        """Calls `use` when the functions can be used: at once, or from another thread; never without a compiler."""
        if self._addresses:
            use()
        elif machine.available():
            self._waiting.append(use)
            if os.environ.get("MINDTORCH_JIT") == "now":
                self._loaded(machine.load(self._ir, self._names))
            elif len(self._waiting) == 1:
                machine.load_in_background(lambda: self._ir, self._names, self._loaded)

    def _loaded(self, addresses: dict[str, int]) -> None:
        self._addresses.update(addresses)
        while self._waiting:
            self._waiting.pop()()

    def over(self, name: str, owner: Any) -> Callable[..., Any]:
        """The function of this name, that stands on an object."""
        return machine.callable_from(self._addresses[name], name, owner)

    def __getattr__(self, name: str) -> Callable[..., Any] | None:
        """The function of this name, that stands on nothing; None as long as it is not loaded."""
        if name not in self._names:
            raise AttributeError(name)
        if name not in self._addresses:
            return None
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = machine.callable_from(self._addresses[name], name)
        return made


_functions = Functions(_IR, _FUNCTIONS)
when_loaded = _functions.when_loaded


def finder(plans: dict[bytes, Any], *, unless_recorded: bool) -> Callable[..., Any]:
    """What gives the plan that these have for its arguments, or None.

    With `unless_recorded` it gives None, too, for tensors with other keys than the CPU's, as autograd's.
    """
    name = "find_unless_recorded" if unless_recorded else "find"
    return _functions.over(name, plans)


@functools.cache
def key_of() -> Callable[..., bytes | None]:
    """The function that gives the key of its arguments."""
    return _functions.over("key", None)
