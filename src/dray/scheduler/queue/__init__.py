"""Which pod is next, and what wakes the ones that wait: active, backoff and unschedulable pods, and the hints about changes."""
