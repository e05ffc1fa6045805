"""Endpoints: a module for each form of the interface."""

from . import chat, status

ROUTERS = [status.router, chat.router]
