"""What an expression may cost, told before, and what it did cost, counted while it runs."""
