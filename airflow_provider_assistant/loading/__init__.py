"""Load documents: each row of a source is one document of a site, created once."""
