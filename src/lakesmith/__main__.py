"""`python -m lakesmith` is the same as `lakesmith`."""

from lakesmith.cli import main

if __name__ == "__main__":
    main()
