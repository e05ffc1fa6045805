"""Endpoints: a module for each form of the interface."""

from . import chat, completions, embeddings, messages, responses, status, tokens

ROUTERS = [module.router for module in (status, chat, completions, responses, messages, embeddings, tokens)]
