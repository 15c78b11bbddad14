"""Read queries, encoded once for every interface."""
