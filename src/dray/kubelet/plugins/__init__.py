"""Who registers: kubelet.sock, the plugin watcher, and the connection to each plugin."""
