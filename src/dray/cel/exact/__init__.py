"""A checked tree to closures that do exactly what the language says, errors and costs included."""
