"""One file a binary: reads its config, builds the task tree. The only place that assembles.

In: flags and config files.
Out: a running process.
Next: `cli/` starts each; `up/` puts them into one process, `sdk/` runs an agent of its own.
"""
