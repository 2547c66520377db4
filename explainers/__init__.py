"""Pure functions from a run to frames, sentences, tables and Altair charts. No Streamlit, CuPy, clock or files.

story/: the base of every story: its requests, frames, words and numbers.
charts/: the palette and the pieces of charts that several stories share.
stories/<name>/: one folder a story.
"""
