"""Each adaptor's table, its handler protocol and the `.proto` file say the same."""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import re
import typing
from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import Default

from dray.wire import cri, deviceplugin, dra, health, podresources, registration
from dray.wire.service import Client, Service, Streaming, Unary, methods_of

MODULES = [cri, deviceplugin, dra, health, podresources, registration]
SERVICES: list[type[Service[Any]]] = [
    value
    for module in MODULES
    for value in vars(module).values()
    if inspect.isclass(value) and issubclass(value, Service) and value is not Service
]
TABLES: list[type[Client]] = [table for service in SERVICES for table in service.tables]


def handler_of(service: type[Service[Any]]) -> type:
    """The protocol class in `Service[…]`."""
    (base,) = service.__orig_bases__  # type: ignore[attr-defined]
    (handler,) = typing.get_args(base)
    assert isinstance(handler, type)
    return handler


def descriptor_of(path: str) -> MethodDescriptor:
    _, service, method = path.split("/")
    found: MethodDescriptor = Default().FindServiceByName(service).methods_by_name[method]
    return found


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def test_all_adaptors_are_looked_at() -> None:
    assert len(SERVICES) == 8
    assert len(TABLES) == 11


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_tables_follow_the_proto_files(table: type[Client]) -> None:
    methods = dict(methods_of(table))
    for name, method in methods.items():
        found = descriptor_of(method.path)
        assert name == snake(found.name)
        assert method.request.DESCRIPTOR is found.input_type
        assert method.response.DESCRIPTOR is found.output_type
        assert isinstance(method, Streaming) == found.server_streaming
    (service,) = {method.path.split("/")[1] for method in methods.values()}
    assert {snake(method.name) for method in Default().FindServiceByName(service).methods} == set(methods)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.__name__)
def test_handlers_follow_the_table(service: type[Service[Any]]) -> None:
    handler = handler_of(service)
    table = dict(methods_of(service.tables[0]))
    declared = {name for name, value in vars(handler).items() if inspect.isfunction(value) and name[0] != "_"}
    assert declared - {"_no_init_or_replace_init"} == set(table)
    scope = vars(importlib.import_module(handler.__module__))
    for name, method in table.items():
        function = getattr(handler, name)
        hints = typing.get_type_hints(function, scope)
        assert hints["request"] is method.request
        if isinstance(method, Unary):
            assert inspect.iscoroutinefunction(function)
            assert hints["return"] is method.response
        else:
            assert typing.get_origin(hints["return"]) is collections.abc.AsyncIterator
            assert typing.get_args(hints["return"]) == (method.response,)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.__name__)
def test_older_versions_agree_on_every_number_they_share(service: type[Service[Any]]) -> None:
    newest = dict(methods_of(service.tables[0]))
    for table in service.tables[1:]:
        for name, method in methods_of(table):
            same_numbers(method.request.DESCRIPTOR, newest[name].request.DESCRIPTOR)
            same_numbers(method.response.DESCRIPTOR, newest[name].response.DESCRIPTOR)


def same_numbers(older: Any, newest: Any) -> None:
    for field in older.fields:
        other = newest.fields_by_name[field.name]
        assert (other.number, other.type, other.is_repeated) == (field.number, field.type, field.is_repeated)
        if field.message_type is not None:
            same_numbers(field.message_type, other.message_type)


def test_a_method_seen_on_the_class_is_its_description() -> None:
    assert deviceplugin.DevicePluginClient.allocate.path == "/v1beta1.DevicePlugin/Allocate"
    assert isinstance(health.HealthClient.node_watch_resources, Streaming)
