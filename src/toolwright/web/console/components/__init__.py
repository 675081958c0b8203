"""Components that the browser draws whole: one element each, whatever they show."""
