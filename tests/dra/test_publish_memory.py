from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from dray.api.field_errors import FieldError, Reason
from dray.api.resource.slice import ResourceSlice, ResourceSliceSpec
from dray.dra.slices.layout import SliceContents
from dray.dra.slices.publish_memory import ServerMemory, Told
from dray.errors import InvalidError, UnavailableError
from tests.dra.pools import pool, pool_device

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)
replace = msgspec.structs.replace


def stored(contents: SliceContents) -> ResourceSlice:
    """As a server answers: taints are dated."""
    devices = tuple(
        replace(one, taints=tuple(replace(taint, time_added=MOMENT) for taint in one.taints))
        for one in contents.devices
    )
    return ResourceSlice(spec=ResourceSliceSpec(devices=devices))


def test_times_of_taints_outlive_the_slices_but_not_the_taints() -> None:
    memory = ServerMemory(is_node_sure=True)
    tainted, plain = SliceContents(pool(2, taint="gone").devices), SliceContents(pool(2).devices)
    assert memory.for_server([tainted], []) == [tainted]
    answer = stored(tainted)
    memory.stored(answer)
    (found,) = memory.for_server([tainted], [])
    assert found.devices == answer.spec.devices
    memory.for_server([plain], [])
    assert memory.for_server([tainted], []) == [tainted]
    # Another process of the driver may have dated it.
    assert memory.for_server([tainted], [answer]) == [found]


def test_what_the_server_keeps_is_enough_until_something_else_is_wanted() -> None:
    memory = ServerMemory(is_node_sure=True)
    wanted, other = SliceContents(pool(2, "x").devices), SliceContents(pool(3, "x").devices)
    kept = SliceContents(pool(2).devices)
    memory.for_server([wanted, wanted], [])
    memory.adopt(1, stored(kept), ["unknown"])
    assert memory.for_server([wanted, wanted], []) == [wanted, kept]
    assert memory.for_server([wanted, other], []) == [wanted, other]
    memory.doubt()
    assert memory.for_server([wanted, wanted], []) == [wanted, wanted]
    assert not memory.is_node_sure


def test_what_is_not_safe_without_a_feature_is_not_offered() -> None:
    memory = ServerMemory(is_node_sure=True)
    wanted = SliceContents((*pool(2).devices, pool_device("t", taint="gone")))
    memory.for_server([wanted], [])
    memory.adopt(0, stored(SliceContents(pool(2).devices)), ["DRADeviceTaints"])
    assert memory.for_server([wanted, wanted], []) == [SliceContents(pool(2).devices)] * 2


def refusal(name: str) -> InvalidError:
    cause = FieldError("spec.devices[0].name", Reason.INVALID, "no")
    return InvalidError(f"ResourceSlice {name} is invalid", causes=(cause,))


def test_a_failure_is_told_once() -> None:
    told = Told()
    assert told.is_new_failure(UnavailableError("away"))
    assert not told.is_new_failure(UnavailableError("away"))
    # The name of what was not made is another one each time.
    assert told.is_new_failure(refusal("00000-a"))
    assert not told.is_new_failure(refusal("00000-b"))
    assert told.is_new_failure(UnavailableError("away"))
    told.refusals = 2
    told.succeeded()
    assert told.refusals == 0
    assert told.is_new_failure(UnavailableError("away"))


def test_a_text_is_new_once() -> None:
    told = Told()
    assert [told.is_new(text) for text in ("a", "b", "a")] == [True, True, False]
