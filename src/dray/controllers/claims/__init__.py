"""Claims of pods: made from templates, reserved for pods that bypassed the scheduler, freed and deleted after them.

In: pods, claims and templates as the API server has them.
Out: claims and their reservations, the pods' record of them, events.
Next: the scheduler allocates the claims, the kubelet checks the reservation before it prepares them.
"""
