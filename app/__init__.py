"""The pages. The only folder that imports streamlit; pages lay out, nothing else."""
