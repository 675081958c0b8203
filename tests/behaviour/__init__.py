"""The requirements of the documents that Toolwright is built from, each with the tests that prove it."""
