"""Functions that expressions can call, one library a module; `kubernetes` is the list of those that Kubernetes offers.

In: values of CEL. Out: `LIBRARY`, overloads with what they do and what they cost.
Next: `environment` collects the libraries that an expression may use.
"""
