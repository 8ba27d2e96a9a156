"""Private search on real tables: any folder of them, the requests to put to it, and how a selection is judged.

`tables` reads a folder, `keys` knows its join keys and their levels, `tasks` the requests, `prepare` turns a table into one
bounded feature (as the paper does, or privately), `world` collects the exact statistics of a task, `methods` runs the
mechanisms on them with seeded noise, `ours` is the small corpus that stands in where no folder is given.
"""
