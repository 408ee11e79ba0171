"""How tensors are saved and loaded."""
