"""Training: gradients of graph functions, and the loss behind a model."""
