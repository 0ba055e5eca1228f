"""One file a binary: reads its config, names the concrete drivers, builds the task tree. The only place that assembles.

In: flags and config files.
Out: a running process, or one look at a machine.
Next: nothing imports a process but `cli/`.
"""
