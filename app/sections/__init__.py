"""The block table story's sections, one `show(chosen, survey)` each."""
