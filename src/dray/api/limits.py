"""The sizes resource.k8s.io allows (Kubernetes 1.36), and the well-known names around device claims."""

from __future__ import annotations

from typing import Final

# ResourceSlice
MAX_DEVICES: Final = 128
MAX_DEVICES_WITH_ADVANCED_FEATURES: Final = 64
"""Holds as soon as one device has taints, consumes counters or has a list attribute."""
MAX_COUNTER_SETS: Final = 8
MAX_COUNTERS: Final = 32
"""Per counter set, and per consumption."""
MAX_COUNTER_CONSUMPTIONS: Final = 2
MAX_ATTRIBUTES_AND_CAPACITIES: Final = 32
MAX_ATTRIBUTE_VALUES: Final = 48
"""Per device; every item of a list attribute counts."""
MAX_ATTRIBUTE_VALUE_LENGTH: Final = 64
MAX_DOMAIN_LENGTH: Final = 63
MAX_ID_LENGTH: Final = 32
MAX_TAINTS: Final = 16
MAX_BINDING_CONDITIONS: Final = 4
MAX_VALID_VALUES: Final = 10

# Names
MAX_DRIVER_NAME_LENGTH: Final = 63
MAX_POOL_NAME_LENGTH: Final = 253

# ResourceClaim and DeviceClass
MAX_REQUESTS: Final = 32
MAX_FIRST_AVAILABLE: Final = 8
MAX_CONSTRAINTS: Final = 32
MAX_CONFIGS: Final = 32
MAX_SELECTORS: Final = 32
MAX_EXPRESSION_LENGTH: Final = 10 * 1024
MAX_OPAQUE_PARAMETERS_LENGTH: Final = 10 * 1024
MAX_TOLERATIONS: Final = 16
"""Documented; the 1.36 API server does not enforce it, and neither does `validation`."""

# ResourceClaim status
MAX_ALLOCATION_RESULTS: Final = 32
MAX_ALLOCATION_CONFIGS: Final = 64
MAX_RESERVED_FOR: Final = 256
MAX_DEVICE_STATUS_CONDITIONS: Final = 8
MAX_DEVICE_STATUS_DATA_LENGTH: Final = 10 * 1024
MAX_NETWORK_IPS: Final = 16
MAX_INTERFACE_NAME_LENGTH: Final = 256
MAX_HARDWARE_ADDRESS_LENGTH: Final = 128

# DeviceTaintRule status
MAX_TAINT_RULE_CONDITIONS: Final = 8

# Selector expressions, at validation and at run time
MAX_SELECTOR_COST: Final = 1_000_000

# Well-known names
CLAIM_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
ADMIN_ACCESS_LABEL: Final = "resource.kubernetes.io/admin-access"
IMPLICIT_EXTENDED_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
