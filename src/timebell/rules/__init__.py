"""Pure decisions: values in, values out. No clock, no chance, no database."""
