"""Admission for real API servers, which have no check across claims: no device is allocated twice, whoever writes it.

In: AdmissionReviews of claims' status and of opaque parameters; pictures of claims and slices.
Out: allowed or refused; what was let through, kept in a ConfigMap until it is known what became of it.
Next: the API server stores what was let through; `processes/` runs one guard that leads and others that wait.
"""
