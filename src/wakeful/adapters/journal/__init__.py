"""The files of a program's journal (docs/specs/recovery.md)."""
