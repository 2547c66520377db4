"""What all other folders of kernels/ speak of. Data only; imports nothing of kernels/ but the errors."""
