"""What in `docs/` is made by a program: reference from the code, plots from the figures, and the site.

`python -m docs.make` writes reference and plots, `--check` only says what is stale, `site` builds the pages.
"""
