"""Agent sessions and jobs in Redis, as popoto lays them out. Imported only if a Redis is configured."""
