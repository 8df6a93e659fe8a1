"""The corpus as it is handed out: built, verified, counted, shown, copied and released."""
