"""The first form of custom operators, which programs written before torch.library.custom_op import."""
