"""What a call does, inside one transaction: it decides, and `store` writes. No HTTP here, and no SQL."""
