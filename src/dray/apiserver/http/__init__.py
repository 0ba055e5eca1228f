"""The server's face: paths, discovery, tables, and requests turned into reads, writes and watches."""
