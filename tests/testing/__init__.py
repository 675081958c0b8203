"""The tools with which users test their own agents."""
