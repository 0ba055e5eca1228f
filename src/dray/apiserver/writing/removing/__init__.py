"""How objects go: deletion with its grace, evictions, what is collected after its owners, and what expires."""
