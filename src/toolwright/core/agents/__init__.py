"""What an agent and a prompt are, how they are configured, and which of them answers."""
