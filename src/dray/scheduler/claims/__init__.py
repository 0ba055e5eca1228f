"""Devices for pods: what kube-scheduler's DynamicResources plugin decides, as values. No I/O: effects are `Write`s.

In: a pod, nodes, and a `Tracker` fed with claims, classes and slices.
Out: a `Status` for each step, and the `Write`s with which a reserved allocation gets to the API server.
Next: the scheduling cycle carries the writes out and binds the pod.
"""
