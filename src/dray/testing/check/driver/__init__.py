"""The rules for DRA drivers, and the kubelet that is played to them."""
