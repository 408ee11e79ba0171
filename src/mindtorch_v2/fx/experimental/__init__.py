"""Parts of torch.fx that compilers use."""
