"""Server-side apply: who owns which field of an object, and what becomes of it when someone applies a configuration.

In: the live document (or none), what a client sent, its field manager.
Out: the new document with its metadata.managedFields, or the conflicts.
Next: writing/, which validates and stores it.
"""
