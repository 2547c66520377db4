"""A class: rooms of a leader and followers, access, and the figures of the server."""
