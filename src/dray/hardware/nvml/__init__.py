"""NVIDIA's management library: what it says about cards and their MIG devices, and how it is found and opened.

`facts.py` is what looks return, `protocol.py` the calls of one open session, `session.py` a real one over the library,
`recorded.py` one that plays a recording back, `reading.py` makes facts of either.
"""
