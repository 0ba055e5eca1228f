"""What `processes/kubelet.py` puts together: the pages it shows of itself, and the logs it serves."""
