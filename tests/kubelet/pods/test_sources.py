from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dray.api.core import Pod
from dray.errors import Error
from dray.kubelet.pods.sources import DIRECTORY, follow_directory, read_pods
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running
from tests.waiting import wait_until


def manifest(name: str, image: str = "i") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec: {{containers: [{{name: a, image: {image}}}]}}
"""


def test_the_same_file_is_the_same_pod_and_an_edit_is_another(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(manifest("one") + "---" + manifest("two"))
    one, two = read_pods([path], "n", FakeClock())
    assert (one.metadata.name, one.metadata.namespace, one.spec.node_name) == ("one", "default", "n")
    assert (one.spec.restart_policy, one.spec.termination_grace_period_seconds) == ("Always", 30)
    assert one.metadata.uid != two.metadata.uid
    assert [pod.metadata.uid for pod in read_pods([path], "n", FakeClock())] == [
        one.metadata.uid,
        two.metadata.uid,
    ]
    path.write_text(manifest("one", "other"))
    (edited,) = read_pods([path], "n", FakeClock())
    assert edited.metadata.uid not in (one.metadata.uid, two.metadata.uid)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: Service\napiVersion: v1\n", "p.yaml:1: Service: only Pods can be run"),
        (manifest("Bad_Name"), "metadata.name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n", "spec.containers"),
        ("{", "p.yaml"),
    ],
)
def test_faults_name_file_and_field(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(Error, match=expected):
        read_pods([tmp_path / "p.yaml"], "n", FakeClock())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"nope\.yaml"):
        read_pods([tmp_path / "nope.yaml"], "n", FakeClock())


class Taker:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.names: list[str] | None = None

    def __call__(self, source: str, pods: Sequence[Pod]) -> None:
        assert source == DIRECTORY
        self.names = sorted(f"{pod.metadata.name}:{pod.spec.containers[0].image}" for pod in pods)

    async def until(self, condition: Callable[[list[str] | None], bool]) -> None:
        await wait_until(lambda: condition(self.names))


async def test_a_directory_is_followed_and_a_bad_edit_changes_nothing(tmp_path: Path) -> None:
    directory, taker = tmp_path / "pods", Taker()
    async with running(follow_directory(directory, "n", FakeClock(), taker), name="follow"):
        await taker.until(lambda names: names == [])
        directory.mkdir()
        (directory / "a.yaml").write_text(manifest("a"))
        (directory / "readme.txt").write_text("no manifest")
        (directory / ".b.yaml").write_text(manifest("hidden"))
        await taker.until(lambda names: names == ["a:i"])
        (directory / "a.yaml").write_text("kind: [")
        (directory / "c.yaml").write_text(manifest("c"))
        await taker.until(lambda names: names == ["a:i", "c:i"])
        (directory / "a.yaml").write_text(manifest("a", "newer"))
        await taker.until(lambda names: names == ["a:newer", "c:i"])
        (directory / "c.yaml").unlink()
        await taker.until(lambda names: names == ["a:newer"])
