"""The support bundle: what somebody else needs to understand a machine, without its secrets."""
