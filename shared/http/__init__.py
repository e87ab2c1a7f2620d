"""What the three HTTP services have in common: strict bodies, problem+json errors, health, and running uvicorn."""
