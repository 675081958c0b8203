"""Tools from OpenAPI documents."""
