"""The benches of Timebell alone: what each measures, beside the same by hand."""
