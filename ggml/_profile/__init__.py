"""What ggml.profiler consists of: reading recordings, tables, words, traces, memory."""
