"""The fleet in a browser: what devices there are, who has them, and why somebody has none.

In: the objects of a cluster as they change, read through `client/` and never written; questions of browsers.
Out: JSON, a stream of changes and the page itself, over HTTP on this machine, to those who know the token.
Next: nobody; `processes/dashboard.py` starts it, `static/` is what a browser shows.
"""
