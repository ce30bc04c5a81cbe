"""Generated from the schema: messages, and calls without the layer above them."""
