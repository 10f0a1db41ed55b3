"""Message selectors: the JMS selector language as the broker reads it, compiled to functions."""

from journalfs.selector.selector import Selector, compile_selector

__all__ = ["Selector", "compile_selector"]
