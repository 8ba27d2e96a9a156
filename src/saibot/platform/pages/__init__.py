"""The web pages: what a browser shows of the platform. Server-rendered, no inline script, nothing from other machines.

`words`, `format` and `charts` turn the API's JSON into text, numbers and Vega specifications; `result` and `report` show
what a search found; `session` signs people in; the routes call the same verbs as the API.
"""
