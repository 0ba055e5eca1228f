"""What is told: rows, stories, explanations, and each question's answer. Knows nothing of HTTP."""
