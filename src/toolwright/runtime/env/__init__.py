"""Where values of variables come from, and where secrets are taken out."""
