"""Real parts for tests, shipped for driver authors: no mocks, real files, real sockets, real processes.

In: a temporary directory, a few lines that say what the test needs.
Out: `host` (a machine's /sys, /dev and /proc), `kubernetes` (a real one-node cluster on loopback), `machine` (a QEMU guest
    with real PCI, USB and mediated devices), `check` (the kubelet's contract, rule by rule, for any plugin or driver).
Next: the tests of drivers, ours and everyone's.
"""
