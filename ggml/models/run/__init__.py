"""Computing with sequences of tokens: graphs, keys and values, adapters. Knows no texts."""
