"""The node agent's own decisions: its configuration, which machine it looks at, which kinds go through which door, and what is offered where.

In: a config file, a KubeVirt object or flags; the Node and the API server's answers; the devices of the drivers.
Out: what is served (`config/`), drivers that find it (`kinds.py`), both doors over one inventory (`doors/`), events and metrics.
Next: `processes/agent.py` puts it together and runs it; `up/` and `dray devices` look at a machine as the agent does.
"""
