"""Endpoints: a module for each form of the interface."""

from . import chat, completions, embeddings, status, tokens

ROUTERS = [module.router for module in (status, chat, completions, embeddings, tokens)]
