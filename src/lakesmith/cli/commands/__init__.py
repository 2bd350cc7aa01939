"""One module for each command; its click command has the same name."""
