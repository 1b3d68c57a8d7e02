"""``thunder.core.trace``."""

from fulgurite import Trace as TraceCtx

__all__ = ["TraceCtx"]
