"""What a container gets: edits, their CDI spec file, and the edited OCI spec.

In: `ContainerEdits`, which drivers fill.
Out: the same, merged; CDI files and OCI specs join here later.
Next: `deviceplugin/` and `dra/`, which hand them to the kubelet.
"""
