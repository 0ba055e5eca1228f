"""The rules for device plugins, and the kubelet that is played to them."""
