"""
Property tests with generated scenarios, called nights.

A night is one task with several tries, during which the service fails in generated ways, the task is killed, the
ledger's database is unreachable, the disk is full or the clock jumps. The tests verify that the package keeps its
documented promises in every night.
"""
