from __future__ import annotations

from dray.sdk import Device, Edits, Mount, Node, Request


def test_the_usual_edits() -> None:
    devices = [Device("a", nodes=["/dev/a"]), Device("b", nodes=["/dev/b"], mounts=["/run/b"])]
    request = Request(devices=devices, config=None, label="example.com/lamp")
    assert request.edits() == Edits(
        env={"DEVICES_EXAMPLE_COM_LAMP": "a,b"},
        nodes=[Node("/dev/a"), Node("/dev/b")],
        mounts=[Mount("/run/b")],
    )


def test_a_variable_for_each_request_of_a_pod() -> None:
    one, two = (Request(devices=(), config=None, label=f"claim/{name}") for name in ("a", "b"))
    assert (one.variable("LAMP"), two.variable("LAMP")) == ("LAMP_CLAIM_A", "LAMP_CLAIM_B")
