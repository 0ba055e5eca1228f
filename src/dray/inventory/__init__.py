"""All drivers' devices in one list, and who holds which through which door.

In: `Device`s of every driver, with their health.
Out: one immutable `Inventory` after the other, with change notice, and a view of it for each door.
Next: `deviceplugin/` and `dra/` tell it to Kubernetes.
"""
