"""Compute the stored tables again: ``make tables``."""

from slrlab.experiments.stored import write_tables

if __name__ == "__main__":
    write_tables()
