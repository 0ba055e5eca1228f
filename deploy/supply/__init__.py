"""What Dray is made of: the pinned packages, whether they are sound (`make audit`), and the list of them (`make sbom`)."""
