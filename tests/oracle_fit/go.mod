// The real plugins of kube-scheduler, as a program to ask.
// It is built with the requirements of the module that builds kube-scheduler itself (see program.py).
module dray.internal/oracle-fit

go 1.26.0
