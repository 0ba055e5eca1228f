"""Files: checkpoints that survive a kill, watches that miss nothing, paths that nobody can bend."""
