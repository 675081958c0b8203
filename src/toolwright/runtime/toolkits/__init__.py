"""The tools that come with Toolwright, by toolkit."""
