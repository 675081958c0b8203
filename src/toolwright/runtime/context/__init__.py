"""Context of the current run: its recorded state, the state that only this process has, and the writing of commits."""
