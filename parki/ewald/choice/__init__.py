"""From a tolerance to all parameters: what they cost, what they need, and which are best."""
