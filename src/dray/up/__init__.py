"""`dray up`: everything in one process, where it keeps things, what it chooses, how it is watched over and how it ends.

In: flags, the data directory of an earlier run, and a machine, real or simulated.
Out: all parts running (`all_in_one.py`), hollow nodes beside them (`fleet/`), and the place where others find them (`place.py`).
Next: `cli/` starts, shows and stops it; `demo/` runs one for itself, `doctor/` looks at where one is kept.
"""
