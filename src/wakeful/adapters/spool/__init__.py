"""Hook payloads that agent clients drop into a folder. They report; nothing in them is an order."""
