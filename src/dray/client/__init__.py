"""Talk to an API server, real or embedded alike: verbs, watches, caches that follow the server, leader election.

In: a kubeconfig or the pod's service account, and `Resource[T]` descriptors from `api/kinds.py`.
Out: typed views of objects, raw documents, and `Snapshot`/`Change` values of a `Reflector` or an `Informer`.
Next: `dra/`, `scheduler/`, `controllers/`, `kubelet/` and the faces read and write through it.
"""
