"""A container engine, spoken to through aiodocker, and what this host sees of the processes in its containers."""
