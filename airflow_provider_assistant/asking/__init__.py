"""Ask questions, each once: read them, send them, poll their requests, and write the answers."""
