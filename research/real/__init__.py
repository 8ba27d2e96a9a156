"""Private search on real tables: any folder of them, the requests to put to it, and how a selection is judged.

`tables` reads a folder, `keys` knows its join keys and their levels, `tasks` the requests, `prepare` turns a table into one
feature as the paper does, `world` collects what is exact about a task. `publishing` writes cards and releases by them,
`searching` runs the product's search on the sketches, `joins` the paper's; `protocol` judges what they select. `ours` is the
small corpus that stands in where no folder is given.
"""
