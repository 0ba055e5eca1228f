"""The agent's configuration file, and what the agent serves by it.

`load_agent_config` reads a file (KubeVirt's `.spec.configuration` or a whole KubeVirt object, with our additions under
`dray:`) or says everything that is wrong with it; `served` says what follows. Both are pure: a file that is read again
and is bad leaves the old value in force. The steps: `reading` (text to values and views), `additions` (ours), `conflicts`
(entries that contradict each other), `serving` (the result).
"""

from __future__ import annotations

from dray.agent.config.additions import Additions, DraSettings, Role, Unit
from dray.agent.config.load import AgentConfig, load_agent_config
from dray.agent.config.serving import (
    GenericRule,
    MdevRule,
    MdevTypes,
    PciRule,
    Served,
    SocketRule,
    UsbRule,
    VgpuRule,
    served,
)

__all__ = [
    "Additions",
    "AgentConfig",
    "DraSettings",
    "GenericRule",
    "MdevRule",
    "MdevTypes",
    "PciRule",
    "Role",
    "Served",
    "SocketRule",
    "Unit",
    "UsbRule",
    "VgpuRule",
    "load_agent_config",
    "served",
]
