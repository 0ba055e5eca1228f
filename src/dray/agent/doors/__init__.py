"""Both doors of the agent over one inventory, and each DRA driver that it runs."""
