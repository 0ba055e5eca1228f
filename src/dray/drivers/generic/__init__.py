"""Devices that are one node in /dev and can be shared: /dev/kvm, /dev/net/tun and their like."""
