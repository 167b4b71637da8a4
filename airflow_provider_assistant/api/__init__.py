"""The Assistant API without any input or output: how to build requests, read replies and decide on retries."""
