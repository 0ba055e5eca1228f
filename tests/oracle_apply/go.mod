// Kubernetes' own field manager, as a program to ask.
// It is built with the requirements of the module that builds Kubernetes itself (see program.py).
module dray.internal/oracle-apply

go 1.26.0
