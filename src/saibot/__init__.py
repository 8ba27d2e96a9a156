"""Saibot: differentially private data search.

A provider turns a table about individuals into a *sketch*, noisy sufficient statistics grouped by a join key,
on its own machine and once. A platform that nobody has to trust stores sketches and finds the combination
that most improves a requester's regression; every such use is post-processing and costs no further budget.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
