"""How a run is led: steps, calls of a step, prompt tools, ends, failures."""
