"""Kinds that clients define: a CustomResourceDefinition makes its kind be served, as raw JSON like the others of the data file.

In: CustomResourceDefinitions as they are stored.
Out: `Served` for each, with defaults, rules and table columns out of the definition.
Next: `live.py`, which the HTTP handler and the upkeep ask what is served now.
"""
