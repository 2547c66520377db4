"""Load, faults and strangers: what a hundred browsers and hostile links do to the app. Run by hand; figures are
printed, none is asserted. A small share of the same links and command lines is tested in tests/app and
tests/kernels."""
