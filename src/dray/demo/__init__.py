"""`dray demo`: what it watches, the two roads that a device can take to a container, and a claim that cannot be met.

In: a runtime for containers and a directory; `up/` starts the stack.
Out: a `Story`, one word after the other as it happens, with times.
Next: `cli/demo_view.py` prints it.
"""
