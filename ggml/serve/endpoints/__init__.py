"""Endpoints: a module for each form of the interface."""

from . import chat, completions, embeddings, messages, page, responses, status, tokens

MODULES = (page, status, chat, completions, responses, messages, embeddings, tokens)
ROUTERS = [module.router for module in MODULES]
