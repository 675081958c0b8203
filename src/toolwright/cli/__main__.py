"""`python -m toolwright.cli`, the same as `toolwright`."""

from toolwright.cli.entry import main

if __name__ == "__main__":
    main()
