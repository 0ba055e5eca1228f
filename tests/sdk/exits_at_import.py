"""A module that runs its program when it is imported."""

import sys

sys.exit(3)
