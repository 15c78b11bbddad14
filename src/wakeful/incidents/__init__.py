"""Problems grouped by cause, and the issues filed about them."""
