"""The class of nested tensors, and the functions that know it."""
