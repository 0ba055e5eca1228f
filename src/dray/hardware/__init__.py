"""What a machine has, read from /sys, /proc and /dev under a given root. The only room that touches the host.

In: a `HostRoot` ("/", "/proc/1/root" or a test's tree), or a `Sweep` over it that several looks share.
Out: facts, one frozen type a file (`PciFunction`, `UsbDevice`, `Mdev`…), as `Found(items, problems)`; `change/` holds all writes to the host.
Next: `drivers/`, which make devices of them.
"""
