"""OpenAPI: v3 in full, one document for each version of a group; v2 as far as kubectl needs it. Pure.

In: what is served, discovery, and the table of shapes.
Out: the documents kubectl explains from, calculates patches with, and looks query parameters up in.
Next: the handler sends them.
"""

from dray.apiserver.http.openapi.documents import ROOT, openapi_document, openapi_index
from dray.apiserver.http.openapi.version_two import ROOT_V2, openapi_v2

__all__ = ["ROOT", "ROOT_V2", "openapi_document", "openapi_index", "openapi_v2"]
