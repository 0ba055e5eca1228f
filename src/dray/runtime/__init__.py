"""Domain-free asyncio: lifetimes, time, files and logs. Knows nothing of Kubernetes or devices.

In: coroutines, paths, clocks.
Out: task trees, backoff, workqueues, checkpoint files, file watches, safe paths, metrics, log lines.
Next: every room above.
"""
