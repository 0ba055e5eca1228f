"""Where on the machine: NUMA hints of all providers, merged into one decision."""
