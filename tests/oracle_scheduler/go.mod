// The real kube-scheduler's decisions about one cluster, as a program to ask.
// It is built with the requirements of the module that builds kube-scheduler itself (see program.py).
module dray.internal/oracle-scheduler

go 1.26.0
