"""Values as bytes between a worker and its server. A message names no code, and its reader trusts no byte."""
