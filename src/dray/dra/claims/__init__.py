"""What the driver does with a claim: reads it, plans, notes, changes the host, writes files, and undoes it all."""
