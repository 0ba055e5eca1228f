"""The Common Expression Language, as Kubernetes speaks it: parse, check, estimate, compile, evaluate. Knows no devices.

In: the text of an expression, and an environment: variables with types, libraries of functions.
Out: a `Program` that gives a value or an error, tells what it reads, and what it costs.
Next: `allocation/selector.py` puts devices into it.
"""
