"""The benchmarks behind `dray bench`: every figure stands beside a peer measured in the same run.

In: the rooms, and peers that are installed.
Out: `Figure`s, as a table or as JSON.
Next: `cli/bench.py` shows them; `docs/performance.md` keeps what was seen, with its conditions.
"""
