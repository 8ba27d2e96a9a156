"""The figures, one module per family: what is run, how it is drawn, and what it should show."""
