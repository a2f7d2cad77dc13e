"""Inside a replica of a serve deployment: its object, methods, threads, reports and logs."""
