"""Two versions of a kernel side by side in a terminal: a look at each, and the changes between them."""
