"""
Scores of answers, what they are compared with, and the verdict: pure functions, usable in a notebook.

Answers come as a table, such as the one that ``AssistantAskOperator`` writes; what is expected of them as columns of
the same table or as a table of its own.
"""
