"""Device plugins: one resource each, one lifetime for all kinds. Serves, registers, follows the kubelet, stops cleanly.

In: the `Inventory`, and the driver that prepares its devices.
Out: `ListAndWatch`, `GetPreferredAllocation`, `Allocate`, `PreStartContainer` on a socket the kubelet knows.
Next: the kubelet, real or ours, over `wire/`.
"""
