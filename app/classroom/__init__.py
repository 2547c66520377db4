"""A class: rooms that follow a leader, who may come in, and what the lecturer sees of the server."""
