"""What there is to allocate: slices with the taints of rules, device classes, and the resources that classes serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dray.allocation.explanation.extended import classes_by_resource
from dray.allocation.index.index import Index
from dray.api.resource.device_class import DeviceClass
from dray.api.resource.slice import ResourceSlice
from dray.api.resource.taint_rule import DeviceTaintRule
from dray.scheduler.claims.mappings import DeviceMappings
from dray.scheduler.claims.settings import Settings
from dray.semantics.taints import with_taint_rules


class Catalogue:
    """Belongs to a `Tracker`, whose owner feeds it. `revision` grows with every change."""

    def __init__(self, index: Index, settings: Settings) -> None:
        self._index = index
        self._options = settings.options
        self.mappings = DeviceMappings() if settings.node_allocatable else None
        """What devices take from their nodes; None without the gate."""
        self._slices: dict[str, ResourceSlice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._classes: dict[str, DeviceClass] = {}
        self.class_of: Mapping[str, str] = {}
        """The name of the class that serves an extended resource."""
        self.revision = 0

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """By name."""
        return self._classes

    def set_class(self, one: DeviceClass) -> None:
        """New or changed."""
        self._classes[one.metadata.name] = one
        self._renew_classes()

    def remove_class(self, name: str) -> None:
        """Gone."""
        if self._classes.pop(name, None) is not None:
            self._renew_classes()

    def set_slice(self, one: ResourceSlice) -> None:
        """New or changed."""
        self._slices[one.metadata.name] = one
        if self.mappings is not None:
            self.mappings.set_slice(one)
        self._show((one,))

    def remove_slice(self, name: str) -> None:
        """Gone."""
        if (gone := self._slices.pop(name, None)) is not None:
            if self.mappings is not None:
                self.mappings.remove_slice(gone)
            self._index.remove_slice(name)
            self.revision += 1

    def set_rule(self, one: DeviceTaintRule) -> None:
        """New or changed; it looks at every slice."""
        self._rules[one.metadata.name] = one
        self._show(self._slices.values())

    def remove_rule(self, name: str) -> None:
        """Gone; it looks at every slice."""
        if self._rules.pop(name, None) is not None:
            self._show(self._slices.values())

    def remove_node(self, name: str) -> None:
        """Forget what was worked out for a node that is gone."""
        self._index.remove_node(name)

    def _renew_classes(self) -> None:
        self._index.set_classes(self._classes.values())
        self.class_of = classes_by_resource(self._classes.values())
        self.revision += 1

    def _show(self, slices: Iterable[ResourceSlice]) -> None:
        options = self._options
        rules = (
            [self._rules[name] for name in sorted(self._rules)] if options.features.device_taint_rules else []
        )
        for one in with_taint_rules(slices, rules, bare_selects_all=options.profile.bare_rule_taints_all):
            self._index.set_slice(one)
        self.revision += 1
