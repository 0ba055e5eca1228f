"""The versioned store: all objects in memory, every change in SQLite before anyone hears of it.

In: decisions about objects (`write`).
Out: objects, pages at one revision and watches, of durable state only.
Next: `apiserver/writing/` decides, `apiserver/http/` reads and watches. `contract.py` is read first.
"""
