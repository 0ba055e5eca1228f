"""What a kubelet serves to its API server: the containers' logs, over TLS, to callers that the API server vouches for."""
