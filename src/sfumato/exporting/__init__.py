"""A release in the forms of other tools: tables, labels, and weights by which ordinary SQL gives estimates."""
