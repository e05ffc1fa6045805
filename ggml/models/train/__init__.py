"""Fine-tuning by low-rank adapters."""
