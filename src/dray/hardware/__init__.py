"""What a machine has, read from /sys, /proc and /dev under a given root. The only room that touches the host.

In: a `HostRoot` ("/", "/proc/1/root" or a test's tree).
Out: facts, one frozen type a file (`DeviceNode`); reading needs no rights and changes nothing.
Next: `drivers/`, which make devices of them.
"""
