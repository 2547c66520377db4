"""Two versions of a kernel side by side: in a terminal, in Markdown, and on the page Workbench.

version.py     version(): a kernel's text after its check, its run on the CPU and its compilation for a GPU
comparison.py  compare(): the table of two versions, in lines, in Markdown and in JSON
values.py      the first value and the first access in which two runs differ
command.py     python -m kernels watch and report
"""
