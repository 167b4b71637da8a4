"""From rows and files to documents."""
