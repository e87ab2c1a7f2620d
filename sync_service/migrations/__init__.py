"""Alembic's environment and the migrations, packaged with the service."""
