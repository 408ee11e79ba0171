"""What runs at the start of an interpreter, before mindtorch_v2 is imported: a folder for the path, not a package."""
