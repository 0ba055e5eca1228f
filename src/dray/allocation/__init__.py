"""Who gets which device: the structured allocator. Pure, sync and deterministic; the same answers as Kubernetes', with reasons.

In: slices, claims, classes, a node, and what is in use already.
Out: an `Allocation`, or a `Refusal` that says which check removed how many devices.
Next: `scheduler/` reserves and binds; `cli/` explains.
"""
