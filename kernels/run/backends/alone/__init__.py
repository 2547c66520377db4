"""A stranger's launches on the GPU, in a process of their own.

parent.py   starts the process, shares arrays with it, and ends it at its limit
guest.py    the process: it takes its powers away, refuses a GPU that reads host memory, and launches
task.py     what both know: the task, its memory, and the first byte of an answer
walls.py    these walls: files and devices by Landlock, system calls by a filter, host memory by a flag of the driver
"""
