"""
Scores, comparison and verdict of an evaluation: pure functions that also work in a notebook.

The input is a table of answers, such as the file of ``AssistantChatBatchOperator``. The expectations are columns of the
same table or a separate table.
"""
