"""Conversations: templates, and the process that renders them."""
