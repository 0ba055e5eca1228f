"""A checked tree to one Python function, for expressions that cannot cost too much; it leaves errors to the exact way."""
