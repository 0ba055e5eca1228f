"""Conformance of any device plugin or DRA driver with the kubelet's contract: rules as data, and what applies them.

In: a socket that somebody serves, or a command that starts a plugin or driver.
Out: a `Report` with pass, FAIL or skip and the evidence for each rule.
Next: `dray check`; authors of plugins and drivers read `docs/reference/check.md`.
"""
