"""Two stories on real data. Households: a ministry predicts spending in communes it has not surveyed, with what five offices
publish. Flights: airlines publish every departure from New York City in 2013, and JetBlue searches.

`households` and `flights` have everybody's tables, `spending` and `story` play all parts on an embedded platform, `model`
trains on what JetBlue has then, `spending_report` and `report` draw it.
"""
