"""The store's interface; `sqlite` is the embedded implementation."""
