"""Kubernetes' words: frozen types, codecs, defaulting, validation and name rules. No I/O.

In: JSON, YAML and plain strings as Kubernetes writes them.
Out: typed views (`Pod`, `ResourceSlice`, `Quantity`…), field errors, encoded documents.
Next: `client/` and `apiserver/` move them; `allocation/` and `drivers/` decide on them.
"""
