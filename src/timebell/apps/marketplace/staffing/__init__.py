"""Who lends whom to which project: companies, members, projects, workers and bookings."""
