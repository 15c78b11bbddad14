"""000's Redis: agent sessions and jobs as popoto lays them out. Imported only where a Redis is configured."""
