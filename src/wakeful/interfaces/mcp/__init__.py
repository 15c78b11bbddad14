"""Agents ask over MCP. Importing `server` costs a second; only `wakeful mcp` does."""
