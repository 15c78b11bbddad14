"""The files of a program's journal, as 004 names them."""
