"""A tree to a checked tree: types, overloads, literals that are bad already."""
