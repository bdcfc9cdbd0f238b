"""Results as text for a person, with rich; a module for each group of commands."""
