"""The HTTP interface: gate, routes, WebSocket."""
