"""
Generated scenarios, called nights, on a virtual clock.

A night is one task with several tries. During them the service, a gateway or the network fails, the process is killed,
the ledger cannot be used, the disk is full or the clock jumps. After each try and at the end, the night checks the
promises of the package against what the double of the service has stored.
"""
