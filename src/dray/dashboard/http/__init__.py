"""How it is told: who may ask, answers over HTTP, the stream of changes, the page's files."""
