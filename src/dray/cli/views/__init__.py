"""What the verbs show of a cluster's objects: rows, sections and documents made from typed objects. Pure but for `objects.py`."""
