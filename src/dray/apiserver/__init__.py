"""The embedded API server: the Kubernetes REST API for one machine, with a store of its own.

In: requests over HTTP, and the data directory of an earlier run.
Out: raw JSON objects with revisions, watches and refusals as Kubernetes words them.
Next: `client/`, kubectl and every other client of a Kubernetes API.
"""
