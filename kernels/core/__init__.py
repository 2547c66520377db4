"""The data types of all other folders of kernels/. It imports only the errors of kernels/."""
