"""torch.nested: tensors of rows of different lengths; only the names are here, and using one raises."""

from .._compat.absent import absent_function

__all__ = ["as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
           "to_padded_tensor"]

globals().update({_name: absent_function(
    f"torch.nested.{_name}", "Pad the rows with torch.nn.utils.rnn.pad_sequence, or pack them with pack_sequence.")
    for _name in __all__})
