"""A result to look at: page fragments, one HTML file, pictures, the terminal. Types come from `wire`; no row is seen here.

`format` writes numbers and dates, `words` says what a release protects; `charts` and `sketch_charts` are the specifications
of all charts; `result` makes a `wire.Result` ready to be shown, and `html`, `picture` and `terminal` show it. HTML and
pictures need the extra `report`.
"""
