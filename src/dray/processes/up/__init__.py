"""What `dray up` has beyond its parts: where it keeps things, what it chooses, how it is watched over and how it ends."""
