"""The state of a recording's cards while it is played back."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from dray.hardware.nvml.codes import ABSENT, Code, NvmlError
from dray.hardware.nvml.facts import Placement

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "mig.recorded.dray.internal")


@dataclass(slots=True)
class Instance:
    """A GPU instance with its compute instance; without one it has no UUID."""

    gpu_instance: int
    profile_id: int
    placement: Placement
    slices: int
    compute_instance: int | None = None
    compute_slices: int = 0
    uuid: str = ""
    is_used: bool = False


@dataclass(slots=True, eq=False)
class Card:
    """A card, which is its own handle. `answers` is what the recording has of it."""

    answers: dict[str, Any]
    instances: list[Instance] = field(default_factory=list)
    is_lost: bool = False
    is_used: bool = False

    @property
    def uuid(self) -> str:
        """Empty for a card that could not be asked when it was recorded."""
        return str(self.answers.get("uuid", ""))

    def answer(self, doing: str, name: str) -> Any:
        """What was recorded, or the error that was."""
        if self.is_lost:
            raise NvmlError(doing, Code.GPU_IS_LOST, device=self.uuid)
        found = self.answers.get(name, {"error": Code.NOT_SUPPORTED})
        if isinstance(found, dict) and "error" in found:
            raise NvmlError(doing, found["error"], device=self.uuid)
        return found

    def maybe(self, doing: str, name: str) -> Any:
        """As `answer`, None where there is no such thing."""
        try:
            return self.answer(doing, name)
        except NvmlError as error:
            if error.code in ABSENT:
                return None
            raise

    def profile(self, profile_id: int) -> dict[str, Any] | None:
        """What was recorded of a profile, by its id."""
        found = (entry for entry in self.answers.get("profiles", ()) if entry.get("id") == profile_id)
        return next(found, None)

    def make(self, doing: str, profile_id: int, placement: Placement) -> Instance:
        """A new GPU instance. NVML's rules: MIG is on, the placement is one of the profile's, and it is free."""
        profile = self.profile(profile_id)
        if profile is None or [placement.start, placement.size] not in profile["placements"]:
            raise NvmlError(doing, Code.INVALID_ARGUMENT, device=self.uuid)
        if not self.answer(doing, "migMode")[0]:
            raise NvmlError(doing, Code.NOT_SUPPORTED, device=self.uuid)
        taken = {number for instance in self.instances for number in instance.placement.slices}
        compute = sum(instance.slices for instance in self.instances) + profile["sliceCount"]
        if taken.intersection(placement.slices) or compute > self.most_slices:
            raise NvmlError(doing, Code.INSUFFICIENT_RESOURCES, device=self.uuid)
        number = next(n for n in range(1, 100) if n not in {one.gpu_instance for one in self.instances})
        made = Instance(number, profile_id, placement, profile["sliceCount"])
        self.instances.append(made)
        return made

    @property
    def most_slices(self) -> int:
        """How many compute slices there are in all."""
        return max((entry.get("sliceCount", 0) for entry in self.answers.get("profiles", ())), default=0)

    def find(self, doing: str, gpu_instance: int) -> Instance:
        """A GPU instance by its id; NvmlError NOT_FOUND."""
        for instance in self.instances:
            if instance.gpu_instance == gpu_instance:
                return instance
        raise NvmlError(doing, Code.NOT_FOUND, device=self.uuid)

    def new_uuid(self, gpu_instance: int, compute_instance: int) -> str:
        """The same for the same place on the same card."""
        return f"MIG-{uuid.uuid5(_NAMESPACE, f'{self.uuid}/{gpu_instance}/{compute_instance}')}"
