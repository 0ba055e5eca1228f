"""Kubernetes objects in protobuf, read into documents: Go clients send slices and claims like this and nothing else.

Answers may be JSON, so nothing is written. Numbers are those of Kubernetes' `generated.proto` files, 1.36.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from dray.api.meta import format_time
from dray.errors import InvalidError

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"
Document = dict[str, Any]

# Field number, JSON name and type. s: string, i: integer, b: bool, q: Quantity, t: Time, r: RawExtension; []: repeated,
# {}: a map with string keys; anything else is another message of this table.
_MESSAGES: Final = {
    "ResourceSlice": "1=metadata:ObjectMeta 2=spec:ResourceSliceSpec",
    "ResourceClaim": "1=metadata:ObjectMeta 2=spec:ResourceClaimSpec 3=status:ResourceClaimStatus",
    "ObjectMeta": (
        "1=name:s 2=generateName:s 3=namespace:s 4=selfLink:s 5=uid:s 6=resourceVersion:s "
        "7=generation:i 8=creationTimestamp:t 9=deletionTimestamp:t "
        "10=deletionGracePeriodSeconds:i 11=labels:s{} 12=annotations:s{} "
        "13=ownerReferences:OwnerReference[] 14=finalizers:s[]"
    ),
    "ResourceSliceSpec": (
        "1=driver:s 2=pool:ResourcePool 3=nodeName:s 4=nodeSelector:NodeSelector 5=allNodes:b "
        "6=devices:Device[] 7=perDeviceNodeSelection:b 8=sharedCounters:CounterSet[]"
    ),
    "ResourceClaimSpec": "1=devices:DeviceClaim",
    "ResourceClaimStatus": (
        "1=allocation:AllocationResult 2=reservedFor:ResourceClaimConsumerReference[] "
        "4=devices:AllocatedDeviceStatus[]"
    ),
    "OwnerReference": "1=kind:s 3=name:s 4=uid:s 5=apiVersion:s 6=controller:b 7=blockOwnerDeletion:b",
    "ResourcePool": "1=name:s 2=generation:i 3=resourceSliceCount:i",
    "NodeSelector": "1=nodeSelectorTerms:NodeSelectorTerm[]",
    "Device": (
        "1=name:s 2=attributes:DeviceAttribute{} 3=capacity:DeviceCapacity{} "
        "4=consumesCounters:DeviceCounterConsumption[] 5=nodeName:s 6=nodeSelector:NodeSelector "
        "7=allNodes:b 8=taints:DeviceTaint[] 9=bindsToNode:b 10=bindingConditions:s[] "
        "11=bindingFailureConditions:s[] 12=allowMultipleAllocations:b "
        "13=nodeAllocatableResourceMappings:NodeAllocatableResourceMapping{}"
    ),
    "CounterSet": "1=name:s 2=counters:Counter{}",
    "DeviceClaim": (
        "1=requests:DeviceRequest[] 2=constraints:DeviceConstraint[] 3=config:DeviceClaimConfiguration[]"
    ),
    "AllocationResult": "1=devices:DeviceAllocationResult 3=nodeSelector:NodeSelector 5=allocationTimestamp:t",
    "ResourceClaimConsumerReference": "1=apiGroup:s 3=resource:s 4=name:s 5=uid:s",
    "AllocatedDeviceStatus": (
        "1=driver:s 2=pool:s 3=device:s 4=conditions:Condition[] 5=data:r "
        "6=networkData:NetworkDeviceData 7=shareID:s"
    ),
    "NodeSelectorTerm": "1=matchExpressions:NodeSelectorRequirement[] 2=matchFields:NodeSelectorRequirement[]",
    "DeviceAttribute": (
        "2=int:i 3=bool:b 4=string:s 5=version:s 6=ints:i[] 7=bools:b[] 8=strings:s[] 9=versions:s[]"
    ),
    "DeviceCapacity": "1=value:q 2=requestPolicy:CapacityRequestPolicy",
    "DeviceCounterConsumption": "1=counterSet:s 2=counters:Counter{}",
    "DeviceTaint": "1=key:s 2=value:s 3=effect:s 4=timeAdded:t",
    "NodeAllocatableResourceMapping": "1=capacityKey:s 2=allocationMultiplier:q",
    "Counter": "1=value:q",
    "DeviceRequest": "1=name:s 2=exactly:ExactDeviceRequest 3=firstAvailable:DeviceSubRequest[]",
    "DeviceConstraint": "1=requests:s[] 2=matchAttribute:s 3=distinctAttribute:s",
    "DeviceClaimConfiguration": "1=requests:s[] 2=deviceConfiguration:DeviceConfiguration",
    "DeviceAllocationResult": "1=results:DeviceRequestAllocationResult[] 2=config:DeviceAllocationConfiguration[]",
    "Condition": "1=type:s 2=status:s 3=observedGeneration:i 4=lastTransitionTime:t 5=reason:s 6=message:s",
    "NetworkDeviceData": "1=interfaceName:s 2=ips:s[] 3=hardwareAddress:s",
    "NodeSelectorRequirement": "1=key:s 2=operator:s 3=values:s[]",
    "CapacityRequestPolicy": "1=default:q 3=validValues:q[] 4=validRange:CapacityRequestPolicyRange",
    "ExactDeviceRequest": (
        "1=deviceClassName:s 2=selectors:DeviceSelector[] 3=allocationMode:s 4=count:i "
        "5=adminAccess:b 6=tolerations:DeviceToleration[] 7=capacity:CapacityRequirements"
    ),
    "DeviceSubRequest": (
        "1=name:s 2=deviceClassName:s 3=selectors:DeviceSelector[] 4=allocationMode:s 5=count:i "
        "6=tolerations:DeviceToleration[] 7=capacity:CapacityRequirements"
    ),
    "DeviceConfiguration": "1=opaque:OpaqueDeviceConfiguration",
    "DeviceRequestAllocationResult": (
        "1=request:s 2=driver:s 3=pool:s 4=device:s 5=adminAccess:b "
        "6=tolerations:DeviceToleration[] 7=bindingConditions:s[] 8=bindingFailureConditions:s[] "
        "9=shareID:s 10=consumedCapacity:q{}"
    ),
    "DeviceAllocationConfiguration": "1=source:s 2=requests:s[] 3=deviceConfiguration:DeviceConfiguration",
    "CapacityRequestPolicyRange": "1=min:q 2=max:q 3=step:q",
    "DeviceSelector": "1=cel:CELDeviceSelector",
    "DeviceToleration": "1=key:s 2=operator:s 3=value:s 4=effect:s 5=tolerationSeconds:i",
    "CapacityRequirements": "1=requests:q{}",
    "OpaqueDeviceConfiguration": "1=driver:s 2=parameters:r",
    "CELDeviceSelector": "1=expression:s",
}
_FIELDS: Final = {
    name: {int(field.partition("=")[0]): field.partition("=")[2] for field in text.split()}
    for name, text in _MESSAGES.items()
}
# Written in place of the object in JSON.
_INLINE: Final = "deviceConfiguration"


def read_object(data: bytes) -> Document:
    """The object of a request; InvalidError where it is of a kind that is not known here."""
    if not data.startswith(_MAGIC):
        raise InvalidError("the body is not a Kubernetes object in protobuf")
    try:
        envelope = dict(_parts(data[len(_MAGIC) :]))
        names = {number: _text(value) for number, value in _parts(envelope[1])}
        api_version, kind = names.get(1, ""), names.get(2, "")
        if kind not in ("ResourceSlice", "ResourceClaim"):
            raise InvalidError(f"{kind} in protobuf is not known here: send JSON")
        return {"apiVersion": api_version, "kind": kind, **_message(kind, envelope.get(2, b""))}
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise InvalidError(f"the body cannot be read as protobuf: {error}") from error


def _message(kind: str, data: bytes) -> Document:
    document: Document = {}
    for number, value in _parts(data):
        if (field := _FIELDS[kind].get(number)) is not None:
            _take(document, field, value)
    if kind == "ObjectMeta":
        return {key: value for key, value in document.items() if value not in ("", None)}
    document.update(document.pop(_INLINE, None) or {})
    return document


def _take(document: Document, field: str, value: Any) -> None:
    name, _, kind = field.partition(":")
    if kind.endswith("[]"):
        document.setdefault(name, []).append(_value(kind[:-2], value))
    elif kind.endswith("{}"):
        pair = dict(_parts(value))
        document.setdefault(name, {})[_text(pair.get(1, b""))] = _value(kind[:-2], pair.get(2, b""))
    else:
        document[name] = _value(kind, value)


def _value(kind: str, value: Any) -> Any:
    read = _SCALARS.get(kind)
    return read(value) if read is not None else _message(kind, value)


def _text(value: Any) -> str:
    return bytes(value).decode()


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _quantity(value: bytes) -> str:
    return _text(dict(_parts(value)).get(1, b"0"))


def _time(value: bytes) -> str | None:
    seconds = dict(_parts(value)).get(1)
    return None if seconds is None else format_time(datetime.fromtimestamp(_signed(seconds), UTC))


def _raw(value: bytes) -> Any:
    return json.loads(dict(_parts(value)).get(1, b"null"))


_SCALARS: Final[dict[str, Callable[[Any], Any]]] = {
    "s": _text,
    "i": _signed,
    "b": bool,
    "q": _quantity,
    "t": _time,
    "r": _raw,
}


def _parts(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers as they are, everything else as bytes."""
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        if tag & 7 == 0:
            value, at = _number(data, at)
            yield tag >> 3, value
        elif tag & 7 == 2:
            size, at = _number(data, at)
            if at + size > len(data):
                raise ValueError("it ends in the middle of a field")
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {tag & 7} is not used by Kubernetes")


def _number(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return found, at
