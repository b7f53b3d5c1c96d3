"""Output of commands: formats, tables, documents, pages, files."""
