"""A cluster as files or an API server give it: objects read and checked, who waits for devices, and what-if over all of it."""
