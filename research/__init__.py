"""Research on Saibot, outside the package: the paper's figures and ours, what it is compared with, and benchmarks.

It runs the product: releases, sketches, corpora and searches are those of `saibot`. Only noise is different, numpy's and
seeded, so that a figure can be made again; it proves nothing private, and a platform refuses such a sketch.

* `figures/`: a module for every figure, or family of them; `reproducing/` runs, keeps, draws and checks them.
* `real/`: private search on a folder of real tables, and how a selection is judged.
* `workloads/`: synthetic tables. `baselines/`: what Saibot is compared with.
* `benchmarks/`: speed side by side with what one would do instead.
"""
