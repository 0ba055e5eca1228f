"""Why claims do not fit, and what would make them fit. Nothing here runs unless somebody asks."""
