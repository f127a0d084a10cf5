"""Apps that come with Timebell. Each can be taken away; none is named anywhere but in the settings."""
