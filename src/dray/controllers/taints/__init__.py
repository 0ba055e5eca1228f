"""Eviction of pods whose devices got a NoExecute taint, from their slice or from a DeviceTaintRule.

In: pods, claims, slices and rules as the API server has them.
Out: pods with the condition DisruptionTarget, deleted when their time is up; the status of rules; events.
Next: the kubelet ends the pods, the claim controller frees their devices.
"""
