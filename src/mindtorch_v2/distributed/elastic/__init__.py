"""The elastic launcher: what it says of processes that failed. The launcher itself is torch.distributed.run."""
