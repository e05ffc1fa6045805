"""What belongs to no tensor: number formats, the CPU, messages, thread pools."""
