"""An application's code: found, copied, loaded."""
