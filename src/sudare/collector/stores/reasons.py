"""What SQLite and the system say, in words that tell what to do."""


def reason(said: str) -> str:
    """Why a store in a file cannot be used."""
    if "readonly" in said or "read-only" in said.lower():
        return "it is read-only: give the collector the right to write it"
    if "full" in said or "No space" in said:
        return "the disk is full"
    if "disk I/O error" in said:
        return "the disk reported an error"
    if "not a database" in said or "malformed" in said:
        return "this is not a collector's store, or it is damaged: restore it from a backup"
    if "unable to open" in said:
        return "it cannot be opened: check the path and the rights"
    if "locked" in said:
        return "another program is using it"
    return said
