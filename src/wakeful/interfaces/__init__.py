"""The doors: command line, HTTP, socket, page. They show what services answer and decide nothing themselves."""
