"""What a container gets: edits, their CDI spec file, and the edited OCI spec.

In: `ContainerEdits`, which drivers fill; CDI spec files of anybody.
Out: spec files, a `Registry` of the machine's CDI devices, and OCI specs with devices injected.
Next: `deviceplugin/` and `dra/`, which hand names to the kubelet, and its runtimes, which start containers.
"""
