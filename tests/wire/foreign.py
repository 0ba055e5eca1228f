"""gRPC's C core as the other side, in a process of its own: `foreign.py client|server SOCKET`. Talks JSON on stdout."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from dray.wire.gen import deviceplugin_v1beta1_pb2 as pb

PREFIX = "/v1beta1.DevicePlugin/"


def unary(channel: grpc.Channel, name: str, answer: Any) -> Callable[..., Any]:
    return channel.unary_unary(
        PREFIX + name,
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=answer.FromString,
    )


def allocate_request(text: str) -> pb.AllocateRequest:
    return pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=[text])])


def told(call: Callable[[], Any]) -> list[str]:
    """How a call failed."""
    try:
        call()
    except grpc.RpcError as error:
        return [error.code().name, str(error.details())]
    return ["OK", ""]


def client(path: str) -> dict[str, Any]:
    """Ask a served `samples.Plugin` everything."""
    with grpc.insecure_channel(f"unix:{path}") as channel:
        options = unary(channel, "GetDevicePluginOptions", pb.DevicePluginOptions)
        allocate = unary(channel, "Allocate", pb.AllocateResponse)
        preferred = unary(channel, "GetPreferredAllocation", pb.PreferredAllocationResponse)
        start = unary(channel, "PreStartContainer", pb.PreStartContainerResponse)
        watch = channel.unary_stream(
            PREFIX + "ListAndWatch",
            request_serializer=pb.Empty.SerializeToString,
            response_deserializer=pb.ListAndWatchResponse.FromString,
        )

        def ids(text: str) -> str:
            return str(allocate(allocate_request(text), timeout=20).container_responses[0].envs["IDS"])

        stream = watch(pb.Empty())
        first = [len(next(stream).devices), len(next(stream).devices)]
        stream.cancel()
        with ThreadPoolExecutor(20) as pool:
            many = list(pool.map(ids, map(str, range(100))))
        return {
            "options": options(pb.Empty(), timeout=60).get_preferred_allocation_available,
            "stream": first,
            "many": many,
            "large": len(ids("x" * 4_000_000)),
            "too large": told(lambda: ids("x" * 5_000_000)),
            "after": ids("alive"),
            "failure": told(lambda: preferred(pb.PreferredAllocationRequest(), timeout=60)),
            "deadline": told(lambda: start(pb.PreStartContainerRequest(), timeout=0.1)),
            "unknown": told(lambda: unary(channel, "Nothing", pb.Empty)(pb.Empty(), timeout=60)),
        }


class Plugin:
    """A device plugin in the style of grpcio."""

    def allocate(self, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.AllocateResponse:
        text = request.container_requests[0].devices_ids[0]
        if text.startswith("!"):
            context.abort(getattr(grpc.StatusCode, text[1:]), f"wie gewünscht: {text}")
        if text.startswith("+"):
            text = "y" * int(text)
        answer = pb.ContainerAllocateResponse(envs={"IDS": text})
        return pb.AllocateResponse(container_responses=[answer])

    def start(self, request: Any, context: grpc.ServicerContext) -> pb.PreStartContainerResponse:
        time.sleep(0.5)
        return pb.PreStartContainerResponse()

    def watch(self, request: pb.Empty, context: grpc.ServicerContext) -> Iterator[pb.ListAndWatchResponse]:
        for number in range(2000):
            yield pb.ListAndWatchResponse(devices=[pb.Device(ID=f"{number}-{n}") for n in range(50)])
        context.abort(grpc.StatusCode.NOT_FOUND, "no more")

    def handlers(self) -> grpc.GenericRpcHandler:
        def serialize(message: Any) -> bytes:
            data: bytes = message.SerializeToString()
            return data

        def of(kind: Any, function: Any, request: Any) -> Any:
            return kind(function, request_deserializer=request.FromString, response_serializer=serialize)

        methods = {
            "Allocate": of(grpc.unary_unary_rpc_method_handler, self.allocate, pb.AllocateRequest),
            "PreStartContainer": of(
                grpc.unary_unary_rpc_method_handler, self.start, pb.PreStartContainerRequest
            ),
            "ListAndWatch": of(grpc.unary_stream_rpc_method_handler, self.watch, pb.Empty),
        }
        return grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods)


def serve(path: str) -> None:
    server = grpc.server(ThreadPoolExecutor(20))
    server.add_generic_rpc_handlers((Plugin().handlers(),))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop(0)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(sys.argv[2])
    else:
        json.dump(client(sys.argv[2]), sys.stdout)
