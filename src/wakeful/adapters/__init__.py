"""One folder per outside system; the only code that reads or changes the world."""
