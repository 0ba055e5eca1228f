"""What Kubernetes' objects mean together, each rule once: pure functions that return values, never texts.

In: objects of `api`, as an informer, a file or a request gives them.
Out: the claim, the pool, the taint, the holder or the feature that they mean.
Next: `allocation`, and everybody who decides or shows something: scheduler, controllers, kubelet, API server, CLI, dashboard.
"""
