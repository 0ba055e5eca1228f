"""Bodies in protobuf: what client-go programs (kubectl, kubelet, kube-scheduler, the controller manager) write.

In: a body as `application/vnd.kubernetes.protobuf`.
Out: the JSON document it stands for, as an API server would show it.
Next: `http/bodies.py`, which takes it like any other document.

There is no way back: answers and watches are JSON for everybody, which all these programs take. client-go's typed
clients accept `application/vnd.kubernetes.protobuf,application/json` (UseProtobufAsDefault in rest/request.go), as the
kubelet and the metadata client do; a client that only sets its content type, like kube-scheduler, accepts
`application/vnd.kubernetes.protobuf, */*` (setAcceptHeader there). The decoder of an answer and of a watch is chosen by
the Content-Type that comes with it.
"""
