"""The devices' alembic revisions, found through the hook ``sendoff_migrations``. They only ever expand."""
