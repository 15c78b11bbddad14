"""`wakeful setup`: hooks, alerts, autostart, completion and MCP, step by step."""
