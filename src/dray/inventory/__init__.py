"""All drivers' devices in one list, and (to come) who holds which through which door.

In: `Device`s of every driver, with their health.
Out: one immutable `Inventory` after the other, with change notice.
Next: `deviceplugin/` and `dra/` tell it to Kubernetes.
"""
