"""The story on real flights: every departure from New York City in 2013. Airlines publish, JetBlue searches.

`flights` writes everybody's table and card, `story` plays all parts on an embedded platform, `model` trains on what JetBlue
has then, `report` draws it.
"""
