"""The built-in tools of Toolwright, by toolkit."""
