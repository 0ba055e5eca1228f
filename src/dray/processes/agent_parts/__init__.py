"""What `processes/agent.py` puts together: its view of the API server and its Node, the machine, events, metrics, options."""
