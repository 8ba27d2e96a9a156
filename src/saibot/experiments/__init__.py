"""Experiments: simulated corpora and what each mechanism makes of them. Noise here is seeded and proves nothing private."""
