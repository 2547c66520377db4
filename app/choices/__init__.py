"""The choices of pages, from the fields of problems and the constants of kernels. The browser holds their values."""
