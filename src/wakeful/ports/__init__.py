"""What services need of the world, as Protocols. Adapters implement them; `wakeful.testing` publishes fakes."""
