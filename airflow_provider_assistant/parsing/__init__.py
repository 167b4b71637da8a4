"""
HTML, PDF and Office files as Markdown, parsed in a child process with limits.

The libraries that parse them read what strangers wrote. A file may make them use all memory, never end or crash, and in
a thread nothing could stop them. So :mod:`.child` runs ``python -m airflow_provider_assistant.parsing`` and limits its
memory and time; only this process imports the libraries. The package imports nothing else of ours, and no Airflow: the
process starts in a fraction of a second.
"""
