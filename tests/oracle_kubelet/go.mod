// The real topology and device managers of the kubelet, as a program to ask.
// It is built with the requirements of the module that builds the kubelet itself (see program.py).
module dray.internal/oracle-kubelet

go 1.26.0
