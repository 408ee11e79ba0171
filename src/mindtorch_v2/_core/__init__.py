"""What tensors are made of: memory, types, devices, shapes, indexing, printing."""
