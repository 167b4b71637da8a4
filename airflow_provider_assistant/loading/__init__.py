"""Loading of rows and files into the knowledge base."""
