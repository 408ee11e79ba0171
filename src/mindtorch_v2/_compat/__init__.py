"""What programs written for PyTorch expect beside what it computes: its name, its past, what is not here."""
