"""Benchmarks: eager, torch.compile and fulgurite side by side. Start with ``run.py``."""
