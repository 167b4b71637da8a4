"""Generated nights: whatever the service answers and whenever a task is killed, the package keeps its promises."""
