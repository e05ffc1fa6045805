/* One row a mode of the pooling operations: POOL(id, NAME): what they take of each window. */
POOL(0, MAX)
POOL(1, AVG)
