"""Small implementations that do everything right, from which broken ones are made."""
