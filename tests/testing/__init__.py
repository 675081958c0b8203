"""What users test their own agents with."""
