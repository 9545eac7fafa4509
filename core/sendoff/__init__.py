"""sendoff delivers notifications from the database an application already has."""
