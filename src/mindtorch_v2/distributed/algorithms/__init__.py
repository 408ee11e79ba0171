"""Algorithms over several processes: joining, and what is done to gradients on their way."""
