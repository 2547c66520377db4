"""Pure functions, one module per story: a run -> frames, sentences and Altair charts. No Streamlit, no CuPy, no clock,
no files."""
