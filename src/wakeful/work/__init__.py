"""The task queue: claims, leases, expiry."""
