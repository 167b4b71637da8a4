"""The Assistant M2M API without any input or output: what to send, how to read what comes back."""
