"""From a wanted pod to running containers and its status, and back."""
