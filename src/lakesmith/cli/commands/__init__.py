"""One module per verb; each has a `verb`."""
