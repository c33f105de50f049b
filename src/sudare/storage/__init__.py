"""Files and databases: written whole or not at all, and what their faults are called."""
