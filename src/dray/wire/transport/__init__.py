"""HTTP/2 and gRPC framing under `serve` and `connect`; nothing above `wire/` imports it."""
