"""``python -m slrlab``."""

from slrlab.cli.main import main

if __name__ == "__main__":
    main()
