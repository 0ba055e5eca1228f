"""Real parts for tests, shipped for driver authors: no mocks, real files, real sockets, real processes.

In: a temporary directory, a few lines that say what the test needs.
Out: `host` (a machine's /sys, /dev and /proc), `kubernetes` (a real one-node cluster on loopback).
Next: the tests of drivers, ours and everyone's.
"""
