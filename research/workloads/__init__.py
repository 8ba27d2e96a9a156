"""Synthetic data of the paper's ablations, and a second kind in which the join key carries the signal."""
