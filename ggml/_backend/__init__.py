"""Devices, buffers and backends."""
