"""`dray doctor`: facts of a machine and its cluster, read and never changed → pure checks → findings, and a support bundle.

Each area has a file with its facts, `look_…` that gathers them, and `check_…` that judges them.

In: a machine's directories, sockets and programs, and its cluster, through `client/`.
Out: a `Finding` for each check, and a bundle without secrets.
Next: `cli/doctor.py` shows them.
"""
