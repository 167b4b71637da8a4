"""
Chat batches: submit many questions, and wait for all answers together.

Questions are submitted with the engine of loads (:mod:`~airflow_provider_assistant.loading`). This package adds one
poller for all open chat requests (:mod:`.schedule` decides, :mod:`.poller` sends), the batch state with the answers so
far (:mod:`.state`), and the output table with one row per question (:mod:`.answers`). A question has one identity, its
``question_id``, from the source to the output.
"""
