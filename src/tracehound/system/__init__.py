"""Services of the operating system: memory of the C library, files, folders of the user, signals."""
