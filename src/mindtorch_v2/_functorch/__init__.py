"""What torch.func is made of: levels, batching rules and the transforms."""
