"""A cluster of hosts that are namespaces of this machine: `make cluster-test`."""
