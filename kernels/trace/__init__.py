"""The probe lines of a source, their records, and the steps of a trace."""
