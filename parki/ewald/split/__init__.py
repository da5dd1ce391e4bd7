"""The splits into near and far field, the window, and the errors of both fields."""
