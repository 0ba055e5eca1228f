"""One file for each thing that can keep a pod off a node, with the words of kube-scheduler 1.36."""
