"""What programs import of PyTorch's exporter without exporting."""
