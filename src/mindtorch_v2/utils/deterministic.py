"""What torch.use_deterministic_algorithms does beyond choosing algorithms."""

# Memory is not filled: reading torch.empty before writing gives what was there.
fill_uninitialized_memory = False
