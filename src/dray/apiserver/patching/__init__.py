"""Patches: what an object becomes, for each kind of patch that Kubernetes knows. Pure; nothing given is changed.

In: the current document, the body of a PATCH request and its content type.
Out: the patched document, not yet defaulted or validated; or a `PatchError` with the status to answer.
Next: `apiserver/writing/` stores it as an update. `entry.py` is read first; `apply/` stands beside it.
"""
