"""Functions of torch.nn.functional."""
