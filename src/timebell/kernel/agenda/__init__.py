"""Agendas: what is owed about a subject is stated whole, compared with what is there, and the difference written."""
