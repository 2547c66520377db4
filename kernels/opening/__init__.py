"""Opens a .cu of a stranger: proposes its front matter from the signature, its launches, and a run of its main()."""
