"""How objects are shown: tables for kubectl, metadata alone, other forms of the same object."""
